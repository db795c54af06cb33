// Keys for those who would rather not reach for the mouse. Where a key leads is written in the page: links carry it as data-key.
// No key decides, cancels or sends anything; all of them are off where data-keys on the document says so, and while somebody types.
(() => {
	"use strict";
	if (document.documentElement.dataset.keys === "off") return;
	const main = () => document.getElementById("main");
	const rows = () => [...main().querySelectorAll("tbody tr, .turn, .tl-row, [data-row]")].filter((row) => stop(row));
	const stop = (row) => [...row.querySelectorAll("a[href]")].find((a) => a.offsetParent !== null);
	let began = 0; // when "g" was pressed

	const typing = (node) => node.closest("input:not([type=checkbox], [type=radio], [type=submit], [type=button]), textarea, select, [contenteditable]");

	// move goes to the main link of another row, so that Enter opens it and the browser shows where one is.
	const move = (by) => {
		const all = rows();
		const here = all.findIndex((row) => row.contains(document.activeElement));
		const next = all[here < 0 ? (by > 0 ? 0 : all.length - 1) : here + by];
		if (!next) return;
		stop(next).focus();
		next.scrollIntoView({ block: "nearest" });
	};

	const select = () => {
		const box = document.activeElement.closest("tr, .turn, [data-row]")?.querySelector("input[type=checkbox]:not(:disabled)");
		if (box) box.click();
	};

	const search = () => {
		const field = main().querySelector("input[type=search]");
		if (!field) return false;
		field.focus();
		field.select();
		return true;
	};

	// help shows the table of the help page over this one, so that nothing typed here is lost.
	const help = async () => {
		const address = document.querySelector("[data-keys-help]").href;
		try {
			const answer = await fetch(address, { headers: { Accept: "text/html" } });
			if (!answer.ok) throw new Error(answer.statusText);
			const page = new DOMParser().parseFromString(await answer.text(), "text/html");
			const dialog = document.getElementById("keys");
			dialog.querySelector(".keys-body").replaceChildren(document.adoptNode(page.getElementById("keys-table")));
			dialog.querySelector("button").onclick = () => dialog.close();
			if (!dialog.open) dialog.showModal();
		} catch {
			location.assign(address);
		}
	};

	const follow = (key) => {
		const link = document.querySelector(`[data-key="${key}"]`);
		if (link) link.click();
		return Boolean(link);
	};

	const act = (key, second) => {
		if (second) return /^[a-z]$/.test(key) && follow(`g ${key}`);
		switch (key) {
		case "?": help(); return true;
		case "/": return search();
		case "j": move(1); return true;
		case "k": move(-1); return true;
		case "x": select(); return true;
		case "c": return follow("c");
		}
		return false;
	};

	document.addEventListener("keydown", (e) => {
		if (e.defaultPrevented || e.isComposing || e.ctrlKey || e.metaKey || e.altKey) return;
		if (typing(e.target) || document.querySelector("dialog[open]")) return;
		const second = began && e.timeStamp - began < 1500;
		began = !second && e.key === "g" ? e.timeStamp : 0;
		if (act(e.key, second)) e.preventDefault();
	});
})();
