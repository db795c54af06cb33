// What the page of a log cannot do without a script: follow the end while it is in view, select lines by mouse and keys, open
// what an address points at, and show times in the reader's zone.
"use strict";
(() => {
	const byId = (id) => document.getElementById(id);
	const box = byId("log-box");
	if (!box) return;
	const lines = byId("log-lines");
	const fresh = byId("log-new");
	const most = 2000; // lines that a page holds; earlier ones leave it while it follows
	const lineOf = (n) => byId("L" + n);
	const numberOf = (li) => Number(li.id.slice(1));
	const grouped = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, ",");

	// --- the end: followed only while it is in view ---
	let following = "tail" in box.dataset && !location.hash.startsWith("#L"), unseen = 0;
	const atEnd = () => box.scrollHeight - box.scrollTop - box.clientHeight < 30;
	const toEnd = () => { box.scrollTop = box.scrollHeight; unseen = 0; fresh.hidden = true; };
	box.addEventListener("scroll", () => { if ((following = atEnd())) { unseen = 0; fresh.hidden = true; } }, { passive: true });
	fresh.addEventListener("click", () => { following = true; toEnd(); box.focus(); });

	let newest = 0;
	const all = () => lines.querySelectorAll("li[id]");
	const tidy = () => {
		const seen = new Set();
		let added = 0, last = newest;
		for (const li of all()) {
			if (seen.has(li.id)) { li.remove(); continue; }
			seen.add(li.id);
			if (numberOf(li) > newest) { added++; last = Math.max(last, numberOf(li)); }
		}
		newest = last;
		if (lines.firstElementChild) byId("log-nothing")?.remove();
		return added;
	};
	const trim = () => {
		if (following) for (let n = all().length; n > most; n = all().length) lines.firstElementChild.remove();
		const first = lines.querySelector("li[id]");
		const earlier = byId("log-earlier");
		if (!first || !earlier) return;
		earlier.hidden = numberOf(first) <= 1;
		byId("log-before").textContent = grouped(numberOf(first) - 1);
		const up = new URL(byId("log-up").href);
		up.searchParams.set("from", Math.max(numberOf(first) - 500, 1));
		byId("log-up").href = up;
	};
	document.addEventListener("htmx:sse:after:message", () => {
		unseen += tidy();
		trim();
		zone();
		show();
		if (following) return toEnd();
		fresh.hidden = !unseen;
		fresh.textContent = unseen === 1 ? "1 new line" : grouped(unseen) + " new lines";
	});

	// --- times in the reader's zone, named ---
	const zone = () => {
		if (box.dataset.times !== "local") return;
		const format = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
		byId("log-zone").textContent = `Times are ${format.resolvedOptions().timeZone}, as stored by the server`;
		for (const time of box.querySelectorAll("time:not([data-zoned])")) {
			time.textContent = format.format(new Date(time.dateTime));
			time.dataset.zoned = "";
		}
	};

	// --- selected lines, which are what the address names ---
	let from = 0, to = 0, at = 0;
	const copy = byId("log-copy");
	const show = () => {
		const [a, b] = [Math.min(from, to), Math.max(from, to)];
		box.classList.toggle("log-chosen", !!from);
		if (from) for (const li of box.querySelectorAll("li[id]")) li.classList.toggle("logmark", numberOf(li) >= a && numberOf(li) <= b);
		copy.hidden = !from || !navigator.clipboard;
	};
	const reveal = (n) => {
		const li = lineOf(n);
		if (!li) return false;
		for (let d = li.closest("details"); d; d = d.parentElement.closest("details")) d.open = true;
		following = false;
		li.scrollIntoView({ block: "nearest" });
		return true;
	};
	const address = () => {
		const url = new URL(location.href);
		const [a, b] = [Math.min(from, to), Math.max(from, to)];
		url.searchParams.delete("from");
		url.searchParams.delete("all");
		url.searchParams.set("at", a === b ? a : `${a}-${b}`);
		url.hash = "L" + a;
		return url;
	};
	const select = (n, extend) => {
		if (!extend || !from) from = n;
		to = at = n;
		history.replaceState(history.state, "", address());
		copy.textContent = "Copy link";
		show();
	};
	box.addEventListener("click", (e) => {
		const no = e.target.closest?.(".logno");
		if (!no || e.ctrlKey || e.metaKey || e.button) return;
		e.preventDefault();
		select(numberOf(no.closest("li")), e.shiftKey);
		box.focus({ preventScroll: true });
	});
	const copyLink = async () => {
		if (!from || !navigator.clipboard) return;
		await navigator.clipboard.writeText(address().href);
		copy.textContent = "Copied";
		byId("announce").textContent = "Copied";
	};
	copy.addEventListener("click", copyLink);

	// Keys count only while the log has the focus.
	const move = (by, extend) => {
		const shown = [...box.querySelectorAll("li[id]")].filter((li) => li.offsetParent);
		if (!shown.length) return;
		let i = shown.findIndex((li) => numberOf(li) === at);
		const top = box.getBoundingClientRect().top;
		if (i < 0) i = Math.max(shown.findIndex((li) => li.getBoundingClientRect().bottom > top), 0) - by;
		const li = shown[Math.min(Math.max(i + by, 0), shown.length - 1)];
		select(numberOf(li), extend);
		reveal(numberOf(li));
	};
	box.addEventListener("keydown", (e) => {
		if (document.documentElement.dataset.keys === "off" || e.target !== box || e.ctrlKey || e.metaKey || e.altKey) return;
		const keys = {
			j: () => move(1), k: () => move(-1), J: () => move(1, true), K: () => move(-1, true), y: copyLink,
			n: () => document.querySelector('.logfound [rel="next"]')?.click(), p: () => document.querySelector('.logfound [rel="prev"]')?.click(),
		};
		if (!keys[e.key]) return;
		e.preventDefault();
		keys[e.key]();
	});

	// --- an address that names lines: shown here, or fetched with what stands around them ---
	const arrive = () => {
		const m = /^#L(\d+)(?:-L?(\d+))?$/.exec(location.hash);
		if (!m) return;
		const [a, b] = [Number(m[1]), Number(m[2] || m[1])];
		const asked = /^L?(\d+)(?:-L?(\d+))?$/.exec(new URLSearchParams(location.search).get("at") || "");
		if (!reveal(a)) {
			const url = new URL(location.href);
			url.searchParams.delete("from");
			url.searchParams.set("at", a === b ? a : `${a}-${b}`);
			url.hash = "L" + a;
			if (!asked || Number(asked[1]) !== a) location.replace(url);
			return;
		}
		from = at = a;
		to = asked && Number(asked[1]) === a ? Number(asked[2] || a) : b;
		show();
	};
	addEventListener("hashchange", arrive);
	zone();
	tidy();
	if (following) toEnd();
	arrive();
})();
