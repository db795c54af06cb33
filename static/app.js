// What pages cannot do without a script, and nothing else: an honest live chip, a pause, confirmation dialogs, relative
// times, focus and announcement after an answer, drafts. Every action works without this file.
"use strict";
(() => {
	const byId = (id) => document.getElementById(id);
	const each = (selector, run, root = document) => root.querySelectorAll(selector).forEach(run);

	// say announces once through the one polite region.
	const say = (text) => {
		const node = byId("announce");
		if (!node || !text) return;
		node.textContent = "";
		setTimeout(() => { node.textContent = text; }, 60);
	};

	// --- live chip: derived from the last byte, never from the state of a socket ---
	const live = { last: 0, attempt: 0, paused: false, done: false, dead: "", resume: [] };
	// The server sends an event named ping every 15 s; a comment would not reach us.
	const staleAfter = 34000;
	// zoned is of times.js.
	const clock = (ms) => window.zoned?.(ms) ?? new Date(ms).toISOString().slice(11, 16) + " UTC";

	const silent = () => live.last && Date.now() - live.last > staleAfter;
	const paint = () => {
		const chip = byId("live");
		if (!chip) return;
		let state = "live", text = "Live", reload = false;
		if (live.done) [state, text] = ["done", "Finished"];
		else if (live.dead) [state, text, reload] = ["stale", live.dead, true];
		else if (live.paused) [state, text] = ["paused", "Paused by you"];
		else if (!live.last) [state, text] = ["start", live.attempt ? `Reconnecting (${live.attempt})` : "Connecting"];
		else if (silent()) [state, text, reload] = ["stale", `Stale since ${clock(live.last)}`, true];
		else if (live.attempt) [state, text] = ["reconnecting", `Reconnecting (${live.attempt})`];
		if (chip.dataset.live === state && chip.dataset.text === text) return;
		chip.dataset.live = state;
		chip.dataset.text = text;
		const label = chip.querySelector(".live-text");
		label.textContent = text;
		if (reload) {
			const a = document.createElement("a");
			a.href = location.pathname + location.search;
			a.textContent = "Reload";
			label.append(" ", a);
		}
	};
	const heard = () => { live.last = Date.now(); live.attempt = 0; paint(); };

	document.addEventListener("htmx:sse:before:connection", (e) => {
		live.connection = e.detail.connection;
		if (live.dead || live.done) e.preventDefault();
		else if (live.last) { live.attempt++; paint(); }
	});
	document.addEventListener("htmx:sse:after:connection", heard);
	document.addEventListener("htmx:sse:before:message", (e) => {
		heard();
		// A paused page holds the message back; the stream waits, nothing is lost.
		if (live.paused) e.detail.waitUntil(new Promise((go) => live.resume.push(go)));
	});
	document.addEventListener("htmx:sse:error", (e) => {
		if (e.detail.status === 401 || e.detail.status === 403) live.dead = "Not signed in any more";
		else if (e.detail.status === 404 || e.detail.status === 410) live.dead = "Not there any more";
		paint();
	});
	document.addEventListener("reauth", () => { live.dead = "Your session ended"; paint(); say(live.dead); });
	document.addEventListener("gone", () => { live.dead = "You may not see this any more"; paint(); say(live.dead); });
	document.addEventListener("ended", () => { live.done = true; paint(); });

	const pause = byId("pause");
	if (pause) {
		pause.hidden = false;
		pause.addEventListener("click", () => {
			live.paused = !live.paused;
			pause.setAttribute("aria-pressed", String(live.paused));
			pause.textContent = live.paused ? "Go on" : "Pause";
			if (!live.paused) live.resume.splice(0).forEach((go) => go());
			paint();
		});
	}

	// --- relative times, counted from the server's clock; frozen while the page is stale ---
	const made = document.querySelector(".foot time");
	const skew = made ? Date.now() - Date.parse(made.dateTime) : 0;
	const opened = Date.now();
	let asked = opened;
	// A large skew is a wrong clock here, a small one is the time the page took to come.
	const serverNow = () => Date.now() - (Math.abs(skew) > 3000 ? skew : 0);
	const rough = (s) => s < 60 ? `${s} s` : s < 3600 ? `${Math.floor(s / 60)} min` : s < 172800 ? `${Math.floor(s / 3600)} h` : `${Math.floor(s / 86400)} d`;
	const ages = () => {
		const chip = byId("live");
		if (document.hidden || chip?.dataset.live === "stale") return;
		const now = serverNow();
		each("[data-ago]", (node) => {
			const d = Math.floor((now - Date.parse(node.dataset.ago)) / 1000);
			const text = d < 0 ? "in " + rough(-d) : d < 5 ? "just now" : rough(d) + " ago";
			if (node.textContent !== text) node.textContent = text;
		});
	};
	// A stream that is silent for too long is dead, whatever its socket says, as after a sleep of the machine: another is opened.
	if (byId("live")) setInterval(() => {
		paint();
		if (silent() && !live.paused) live.connection?.reader?.cancel();
		// One that was asked for and never came is asked for anew.
		const node = byId("stream");
		if (node && !live.last && !live.dead && !document.hidden && Date.now() - asked > 12000) {
			asked = Date.now();
			node.removeAttribute("data-htmx-powered");
			node.replaceWith(node.cloneNode());
			htmx.process(byId("stream"));
		}
	}, 1000);
	setInterval(ages, 10000);
	for (const name of ["visibilitychange", "pageshow", "online"]) window.addEventListener(name, () => { paint(); if (!document.hidden) live.connection?.delayCanceller?.(); if (Date.now() - opened > 5000) ages(); });

	// --- the timeline: a row that is there already is not added again ---
	const tidy = () => {
		const rows = byId("timeline-rows");
		if (!rows) return;
		const seen = new Set();
		each("li[id]", (li) => { if (seen.has(li.id)) li.remove(); else seen.add(li.id); }, rows);
		if (rows.children.length) byId("timeline-empty")?.remove();
	};
	document.addEventListener("htmx:sse:after:message", tidy);

	// --- after an answer: focus to the result, announced once ---
	const settle = () => {
		const result = document.querySelector("[data-focus]");
		if (!result) return;
		byId(result.dataset.fold)?.toggleAttribute("open", result.dataset.open);
		byId(result.dataset.focus)?.focus();
		say(result.dataset.announce);
		delete result.dataset.focus;
	};
	document.addEventListener("htmx:after:swap", settle);
	addEventListener("DOMContentLoaded", () => {
		settle();
		const flash = byId("flash");
		if (flash) say(flash.dataset.announce);
	});

	// --- failures are never silent ---
	const toast = (title, text) => {
		const box = byId("toasts");
		if (!box) return;
		const node = document.createElement("div");
		node.className = "toast tone-failed";
		for (const [tag, cls, words] of [["p", "notice-title", title], ["p", "", text]]) {
			const p = document.createElement(tag);
			p.className = cls;
			p.textContent = words;
			node.append(p);
		}
		const close = document.createElement("button");
		close.type = "button";
		close.className = "button button-small";
		close.textContent = "Close";
		close.addEventListener("click", () => node.remove());
		node.append(close);
		box.append(node);
	};
	document.addEventListener("htmx:error", (e) => {
		if (!e.detail.ctx || e.detail.ctx.sourceElement?.id === "stream") return;
		toast("The server could not be reached.", "It is not certain that your action was carried out. What you wrote is still here; send it again, it counts only once.");
	});
	document.addEventListener("htmx:response:error", (e) => {
		const answer = e.detail.ctx?.response;
		if (!answer || answer.status < 500 || e.detail.ctx.sourceElement?.id === "stream") return;
		const id = answer.headers?.get?.("X-Request-Id");
		toast("The server could not carry this out.", "What you wrote is still here; send it again, it counts only once." + (id ? ` Request ${id}.` : ""));
	});

	// --- confirmation before what ends something; without a script the form simply posts ---
	document.addEventListener("submit", (e) => {
		const button = e.submitter;
		if (button?.dataset.confirm && !button.dataset.confirmed) {
			e.preventDefault();
			e.stopImmediatePropagation();
			ask(button);
			return;
		}
		if (button) delete button.dataset.confirmed;
		if (button && "once" in button.dataset) setTimeout(() => { button.disabled = true; }, 0);
	}, true);
	addEventListener("pageshow", () => each("[data-once]:disabled", (b) => { b.disabled = false; }));

	const ask = (button) => {
		const box = document.createElement("dialog");
		box.className = "confirm";
		const words = document.createElement("p");
		words.id = "confirm-words";
		words.textContent = button.dataset.confirm;
		box.setAttribute("aria-labelledby", words.id);
		const row = document.createElement("p");
		row.className = "actions";
		const no = document.createElement("button");
		const yes = document.createElement("button");
		no.type = yes.type = "button";
		no.className = "button";
		no.textContent = "Go back";
		yes.className = "button button-danger";
		yes.textContent = button.textContent.trim();
		row.append(no, yes);
		box.append(words, row);
		no.addEventListener("click", () => box.close());
		yes.addEventListener("click", () => {
			box.close();
			button.dataset.confirmed = "yes";
			button.form.requestSubmit(button);
		});
		box.addEventListener("close", () => { box.remove(); button.focus(); });
		document.body.append(box);
		box.showModal();
		no.focus();
	};

	// --- drafts: a text is kept on the server while it is written, and in this tab until the server has it ---
	const drafts = "textarea[data-draft]";
	// Text areas whose text the server does not have.
	const unsaved = new Set();
	let saving = 0;
	const nameOf = (area) => `draft ${area.dataset.person} ${area.dataset.draft}`;
	// A browser that refuses storage keeps no copies.
	const tab = {
		keep(area, sent) {
			try { sessionStorage.setItem(nameOf(area), JSON.stringify({ text: area.value, at: serverNow(), sent })); } catch { return; }
		},
		read(area) {
			try { return JSON.parse(sessionStorage.getItem(nameOf(area))); } catch { return null; }
		},
		drop(test) {
			try { for (const key of Object.keys(sessionStorage)) if (key.startsWith("draft ") && test(key)) sessionStorage.removeItem(key); } catch { return; }
		},
		// The page after a form was sent says whether it arrived.
		settle(arrived) {
			this.drop((key) => {
				const copy = JSON.parse(sessionStorage.getItem(key));
				if (copy.sent && !arrived) sessionStorage.setItem(key, JSON.stringify({ ...copy, sent: false }));
				return copy.sent && arrived;
			});
		},
	};
	const sending = new WeakMap(); // what is on its way, by text area
	const save = async (area, leaving) => {
		const text = area.value, stop = new AbortController();
		if (!leaving) sending.set(area, stop);
		try {
			const answer = await fetch("/drafts/" + area.dataset.draft, { method: "POST", keepalive: leaving, redirect: "manual", signal: stop.signal, body: new URLSearchParams({ text }) });
			if (answer.status !== 204 || area.value !== text || !unsaved.delete(area)) return;
			tab.drop((key) => key === nameOf(area));
		} catch { return; } // the copy in this tab stays
	};
	const saveAll = (leaving) => unsaved.forEach((area) => area.isConnected ? save(area, leaving) : unsaved.delete(area));
	const written = (area) => {
		unsaved.add(area);
		tab.keep(area);
		clearTimeout(saving);
		saving = setTimeout(saveAll, 5000, false);
	};
	document.addEventListener("input", (e) => { if (e.target.matches?.(drafts)) written(e.target); });
	addEventListener("pagehide", () => saveAll(true));

	// What was sent is kept by nobody, unless the answer says that it did not arrive.
	document.addEventListener("submit", (e) => {
		if (e.defaultPrevented) return;
		const gone = e.target.dataset.discards;
		if (gone) {
			unsaved.clear();
			tab.drop((key) => key.endsWith(" " + gone) || key.includes(` ${gone}:`));
			return;
		}
		for (const area of e.target.elements) {
			if (!area.matches(drafts) || !area.value) continue;
			unsaved.delete(area);
			sending.get(area)?.abort(); // what arrives after the form would be kept although it was sent
			tab.keep(area, true);
		}
	}, true);
	document.addEventListener("htmx:after:request", (e) => {
		const form = e.detail.ctx?.sourceElement;
		if (e.detail.ctx?.response?.status < 400 && form?.matches?.("form")) {
			for (const area of form.elements) {
				if (!area.matches(drafts)) continue;
				unsaved.delete(area);
				tab.drop((key) => key === nameOf(area));
			}
		}
	});
	const restore = () => each(drafts, (area) => {
		const copy = unsaved.has(area) ? null : tab.read(area);
		// A plain form that was sent is leaving the page: what is swapped in meanwhile is no reason to keep its text again.
		if (!copy || copy.sent && !area.form?.hasAttribute("hx-post")) return;
		if (copy.at < Number(area.dataset.kept || 0)) { // the server has what came later
			tab.drop((key) => key === nameOf(area));
			return;
		}
		if (area.value !== copy.text) {
			area.value = copy.text;
			if (copy.text) area.closest("details")?.setAttribute("open", "");
			const note = document.querySelector(`[data-kept-of="${area.dataset.draft}"]`);
			if (note && copy.text) {
				note.hidden = false;
				note.firstElementChild.textContent = `Your text of ${clock(copy.at)} was kept.`;
			}
		}
		written(area);
	});
	document.addEventListener("htmx:after:swap", restore);

	// A comment on a line of a patch: its field appears under the line. Escape takes an empty one away again.
	let entered = null; // the line on which Enter is held down
	const noteAt = (link) => {
		const ref = link.dataset.line, id = "f-line-" + ref;
		if (!byId(id)) {
			const row = byId("line-note").content.firstElementChild.cloneNode(true);
			const area = row.querySelector("textarea"), label = row.querySelector("label");
			for (const [node, name] of [[area, "id"], [area, "name"], [area, "data-draft"], [label, "for"]]) {
				if (node.hasAttribute(name)) node.setAttribute(name, node.getAttribute(name).replace("0-R0", ref));
			}
			const [, side, n] = /-([LR])(\d+)$/.exec(ref);
			label.querySelector("[data-words]").textContent = `line ${n} of the ${side === "L" ? "old" : "new"} file`;
			link.closest("tr").after(row);
		}
		return byId(id);
	};
	document.addEventListener("click", (e) => {
		const link = e.target.closest?.("a[data-line]");
		if (!link || !byId("line-note") || e.ctrlKey || e.metaKey || e.shiftKey || e.altKey) return;
		e.preventDefault();
		history.replaceState(history.state, "", "#file-" + link.dataset.line);
		noteAt(link).focus();
	});
	document.addEventListener("keydown", (e) => {
		if (e.key === "Enter" && !e.ctrlKey && !e.metaKey && !e.shiftKey && !e.altKey && byId("line-note") && e.target.matches?.("a[data-line]")) {
			e.preventDefault(); // opened when the key is let go: it would be written into the field as well
			entered = e.target;
			return;
		}
		const row = e.key === "Escape" && !e.target.value && e.target.closest?.("tr.dcomment");
		if (!row) return;
		const link = document.querySelector(`a[data-line="${e.target.id.slice(7)}"]`);
		row.remove();
		link?.focus();
	});
	document.addEventListener("keyup", (e) => {
		if (e.key === "Enter" && e.target === entered) entered.click();
		entered = null;
	});
	addEventListener("DOMContentLoaded", () => {
		tab.settle(!!byId("flash"));
		each("[data-scripted]", (node) => { node.hidden = false; });
		const mine = document.querySelector(drafts)?.dataset.person;
		if (mine) tab.drop((key) => !key.startsWith(`draft ${mine} `)); // somebody else wrote it
		const form = byId("line-note")?.content.querySelector("textarea").dataset.draft?.replace("0-R0", "");
		each("a[data-line]", (link) => { if (form && sessionStorage.getItem(`draft ${mine} ${form}${link.dataset.line}`)) noteAt(link); });
		restore();
	});

	// --- what this page was like for its reader: told to this server alone, once, when the page is left ---
	const vitals = { lcp: 0, inp: 0, cls: 0 };
	const shifts = { sum: 0, from: 0, last: 0 };
	const observe = (type, run) => {
		if (window.PerformanceObserver?.supportedEntryTypes?.includes(type)) {
			new PerformanceObserver((list) => list.getEntries().forEach(run)).observe({ type, buffered: true, durationThreshold: 40 });
		}
	};
	observe("largest-contentful-paint", (e) => { vitals.lcp = e.startTime / 1000; });
	observe("event", (e) => { if (e.interactionId) vitals.inp = Math.max(vitals.inp, e.duration / 1000); });
	observe("layout-shift", (e) => {
		if (e.hadRecentInput) return;
		// Shifts within a second of each other are one, for five seconds at most.
		if (e.startTime - shifts.last > 1000 || e.startTime - shifts.from > 5000) Object.assign(shifts, { sum: 0, from: e.startTime });
		shifts.last = e.startTime;
		vitals.cls = Math.max(vitals.cls, shifts.sum += e.value);
	});
	document.addEventListener("visibilitychange", () => {
		if (document.visibilityState !== "hidden" || !vitals.lcp || vitals.told || !document.querySelector(".usermenu")) return;
		vitals.told = navigator.sendBeacon("/vitals", new URLSearchParams({ path: location.pathname, lcp: vitals.lcp, inp: vitals.inp, cls: vitals.cls }));
	});

	// --- small conveniences ---
	each("[data-copy]", (button) => {
		if (!navigator.clipboard) return;
		button.hidden = false;
		button.addEventListener("click", async () => {
			await navigator.clipboard.writeText(byId(button.dataset.copy).value);
			button.textContent = "Copied";
			say("Copied");
		});
	});
	const menu = document.querySelector(".usermenu");
	if (menu) {
		document.addEventListener("click", (e) => { if (menu.open && !menu.contains(e.target)) menu.open = false; });
		document.addEventListener("keydown", (e) => {
			if (e.key === "Escape" && menu.open) { menu.open = false; menu.querySelector("summary").focus(); }
		});
	}
})();
