// Shows what is UTC in the reader's zone, before it is painted.
"use strict";
(() => {
	const shape = /^(\d+ \w+ \d{4}, )?\d\d:\d\d(:\d\d)? UTC$/;
	const date = { day: "numeric", month: "short", year: "numeric" };
	window.zoned = (at, parts) => new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZoneName: "shortOffset", ...parts }).format(at);
	const move = (node, key) => {
		const found = shape.exec(node[key]);
		if (found && !isNaN(new Date(node.dateTime))) node[key] = zoned(new Date(node.dateTime), { ...(found[1] && date), ...(found[2] && { second: "2-digit" }) });
	};
	const show = () => {
		for (const node of document.querySelectorAll("time:not([data-utc])")) ["textContent", "title"].forEach((key) => move(node, key));
	};
	const zone = document.getElementById("zone-name");
	if (zone) zone.textContent = Intl.DateTimeFormat().resolvedOptions().timeZone;
	show();
	new MutationObserver(show).observe(document.body, { subtree: true, childList: true, characterData: true, attributeFilter: ["title"] });
})();
