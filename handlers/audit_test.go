package handlers_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"signalbox/db"
	"signalbox/internal/wire"
)

// auditNumbers are the numbers that the list shows on all of its pages.
func auditNumbers(t *testing.T, b *browser, address string) (all []string) {
	t.Helper()
	for address != "" {
		page := b.get(t, address).want(t, http.StatusOK).page(t)
		page.Find("table tbody th a").Each(func(_ int, a *goquery.Selection) {
			all = append(all, strings.TrimPrefix(a.AttrOr("href", ""), "/audit/"))
		})
		address = page.Find("a[rel=next]").AttrOr("href", "")
	}
	return all
}

// R-ATT-4, S9: what the page's filters show, over all of its pages, is what is exported as CSV and as JSON lines, in the same order and
// with the same words; a text that looks like a formula is none in a spreadsheet; every export is in the audit; nobody but
// administrators sees any of it, and nobody sees another tenant's.
func TestAuditPageAndExport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	admin := w.signedIn(t, adam)
	other := uuid.New()
	_, err := conn.Exec(t.Context(), `INSERT INTO tenants (id, name) VALUES ($1, 'elsewhere')`, other)
	must(t, err)
	hostile := []string{"=cmd|'/C calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1", " =1", "＝1", "plain, with \"quotes\"\nand lines", "<b>hostile</b>",
		"a;=1+1;b", "a; -1", "a;\"=1+1\"", "a\n=1", "a\r\n@x", "a\t+1", ";=1", "a;b=c"}
	const rows = 170
	for i := range rows {
		tenant := db.DefaultTenant
		if i%10 == 9 {
			tenant = other
		}
		_, err := conn.Exec(t.Context(), `INSERT INTO audit_log (tenant_id, actor_kind, actor_id, actor_name, channel, remote_addr, request_id, action, object_type, object_id, result, reason, detail)
			VALUES ($1, 'human', $2, $3, 'page', '192.0.2.1', 'req', $4, 'queue', $5, $6, $7, $8)`, tenant, uuid.Nil.String(), fmt.Sprintf("Person %d", i%3),
			[]string{"queue.pause", "gate.approve"}[i%2], fmt.Sprint("q", i), []string{"recorded", "refused"}[i%4/3], hostile[i%len(hostile)], map[string]any{"n": i})
		must(t, err)
	}
	day := url.Values{"since": {"2020-01-01"}, "until": {"2099-01-01T00:00:00+02:00"}, "zone": {"Europe/Zurich"}}
	for _, filter := range []url.Values{{}, {"who": {"person 1"}}, {"action": {"gate.*"}}, {"action": {"queue.pause"}, "result": {"refused"}}, {"object": {"q7"}}, {"object": {"queue"}},
		{"action": {"access"}}, {"until": {"2020-01-01"}}, day} {
		shown := auditNumbers(t, admin, "/audit?"+filter.Encode())
		for _, format := range []string{"csv", "jsonl"} {
			form := url.Values{"format": {format}}
			for name, v := range filter {
				form[name] = v
			}
			// What was exported before is among all rows.
			now := auditNumbers(t, admin, "/audit?"+filter.Encode())
			a := admin.post(t, "/audit/export", form).want(t, http.StatusOK)
			numbers := exportedNumbers(t, a, format)
			if !slices.Equal(numbers, now) {
				t.Errorf("%v as %s: %d rows are exported, %d shown", filter, format, len(numbers), len(now))
			}
		}
		if len(filter) > 0 && filter.Get("since") == "" && filter.Get("object") != "queue" && len(shown) > rows/2+2 {
			t.Errorf("%v lets %d rows pass", filter, len(shown))
		}
	}
	var n int
	must(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM audit_log WHERE action = 'audit.export' AND actor_name = 'Adam Admin' AND detail ->> 'format' <> '' AND (detail ->> 'up_to')::bigint = seq - 1`).Scan(&n))
	if n != 18 {
		t.Errorf("%d exports are in the audit, want 18", n)
	}
	must(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM audit_log WHERE action = 'audit.export' AND detail ->> 'filters' = 'object=q7'`).Scan(&n))
	if n != 2 {
		t.Errorf("%d exports name their filters, want 2", n)
	}
	if a := admin.get(t, "/audit?object=q129").want(t, http.StatusOK); !strings.Contains(a.body, "No row matches these filters.") {
		t.Error("another tenant's row is shown")
	}
	for _, bad := range []string{"zone=Mars/Base", "since=yesterday", "until=2026-13-01", "before=x"} {
		admin.get(t, "/audit?"+bad).want(t, http.StatusUnprocessableEntity)
	}
	admin.post(t, "/audit/export", url.Values{"format": {"xls"}}).want(t, http.StatusUnprocessableEntity)
	for _, person := range []idPerson{rita, ana} {
		b := w.signedIn(t, person)
		b.get(t, "/audit").want(t, http.StatusForbidden)
		b.get(t, "/audit/1").want(t, http.StatusForbidden)
		b.post(t, "/audit/export", url.Values{"format": {"csv"}}).want(t, http.StatusForbidden)
	}
}

// exportedNumbers reads an export and holds that it says about each row what is stored.
func exportedNumbers(t *testing.T, a answer, format string) (numbers []string) {
	t.Helper()
	if !strings.Contains(a.Header.Get("Content-Disposition"), "attachment") {
		t.Errorf("not a download: %v", a.Header)
	}
	if format == "csv" {
		// A spreadsheet may split it at semicolons, tabs and ends of lines, whatever is quoted.
		for part := range strings.FieldsFuncSeq(a.body, func(c rune) bool { return strings.ContainsRune(";\t\r\n", c) }) {
			if c := strings.TrimLeft(part, " \""); c != "" && strings.ContainsAny(c[:1], "=+-@") {
				t.Errorf("a part of a line is a formula: %.80q", part)
			}
		}
		table, err := csv.NewReader(strings.NewReader(a.body)).ReadAll()
		must(t, err)
		for _, row := range table[1:] {
			numbers = append(numbers, row[0])
			for _, cell := range row {
				if trimmed := strings.TrimLeft(cell, " "); trimmed != "" && strings.ContainsAny(trimmed[:1], "=+-@\t\r") || strings.HasPrefix(cell, "＝") {
					t.Errorf("a cell is a formula: %q", cell)
				}
			}
		}
		return numbers
	}
	for line := range strings.SplitSeq(strings.TrimSpace(a.body), "\n") {
		if line == "" {
			continue
		}
		var row struct {
			Number int64
			Hash   string
			Action string
			Detail map[string]any
		}
		must(t, json.Unmarshal([]byte(line), &row))
		if row.Hash == "" || row.Action == "" {
			t.Errorf("a row without action or hash: %s", line)
		}
		numbers = append(numbers, strconv.FormatInt(row.Number, 10))
	}
	return numbers
}

// R-ATT-4: a row keeps its address, links to what it is about, and says itself when it was changed.
func TestAuditRow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signedIn(t, rita).submit(t, "Replace one word.")
	admin := w.signedIn(t, adam)
	page := admin.get(t, "/audit/2").want(t, http.StatusOK)
	if !strings.Contains(page.body, "Its hash fits it") || page.page(t).Find("a[href^='/tasks/task_']").Length() == 0 || page.page(t).Find("a[href^='/audit?who=user_']").Length() != 1 {
		t.Errorf("the row of a submission:\n%s", page.body)
	}
	who := page.page(t).Find("a[href^='/audit?who=user_']").AttrOr("href", "")
	if n := len(auditNumbers(t, admin, who)); n != 2 {
		t.Errorf("%d rows of the person, want sign-in and submission", n)
	}
	for _, none := range []string{"0", "-1", "999", "x", "99999999999999999999"} {
		admin.get(t, "/audit/"+none).want(t, http.StatusNotFound)
	}
	conn := got(pgx.Connect(t.Context(), w.data.OwnerURL))(t)
	defer conn.Close(t.Context())
	_, err := conn.Exec(t.Context(), `UPDATE audit_log SET reason = 'x' WHERE seq = 2`)
	must(t, err)
	if a := admin.get(t, "/audit/2").want(t, http.StatusOK); !strings.Contains(a.body, "was changed after it was written") {
		t.Error("a changed row does not say so")
	}
}

// R-ATT-4: what is found wrong with the audit log stands on every page of an administrator, and on nobody else's.
func TestAFaultOfTheAuditIsShownToAdministrators(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin, other := w.signedIn(t, adam), w.signedIn(t, rita)
	const words = "the audit log <i>ends</i> at number 7"
	for _, fault := range []string{"", words} {
		w.auditFault.Store(&fault)
		for _, path := range []string{"/inbox", "/runs", "/audit"} {
			if shown := strings.Contains(admin.get(t, path).want(t, http.StatusOK).page(t).Find("aside").Text(), words); shown != (fault != "") {
				t.Errorf("%s with fault %q: shown %t", path, fault, shown)
			}
		}
		if a := other.get(t, "/inbox").want(t, http.StatusOK); strings.Contains(string(a.body), "audit log") {
			t.Errorf("a requester reads of %q", fault)
		}
	}
}

// R-ATT-4: the audit log is read through the API with the page's filters, page by page without a gap or a repeat, each row with the
// address of its page; only an administrator's own login reads it.
func TestAuditByAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 5 {
		w.signedIn(t, rita)
	}
	admin := w.cli(t, adam)
	all := into[wire.AuditList](t, admin.call(t, "GET", "/audit?limit=500", nil).want(t, http.StatusOK))
	var paged []wire.AuditRow
	for before := int64(0); ; {
		page := into[wire.AuditList](t, admin.call(t, "GET", fmt.Sprintf("/audit?limit=2&before=%d", before), nil).want(t, http.StatusOK))
		paged = append(paged, page.Items...)
		if before = page.NextBefore; before == 0 {
			break
		}
	}
	if len(all.Items) < 5 || all.NextBefore != 0 {
		t.Fatalf("%d rows, next %d", len(all.Items), all.NextBefore)
	}
	if d := cmp.Diff(all.Items, paged); d != "" {
		t.Errorf("page by page (-at once +paged):\n%s", d)
	}
	mine := into[wire.AuditList](t, admin.call(t, "GET", "/audit?who=Rita&action=session.*&result=recorded", nil).want(t, http.StatusOK))
	if len(mine.Items) != 5 {
		t.Errorf("%d sign-ins of Rita", len(mine.Items))
	}
	for _, row := range mine.Items {
		if row.ActorName != rita.name || row.Action != "session.start" || len(row.Hash) != 64 {
			t.Errorf("row %+v", row)
		}
		if one := into[wire.AuditRow](t, admin.call(t, "GET", fmt.Sprintf("/audit/%d", row.Number), nil).want(t, http.StatusOK)); cmp.Diff(one, row) != "" {
			t.Errorf("alone: %+v", one)
		}
		w.signedIn(t, adam).get(t, strings.TrimPrefix(row.Url, w.url)).want(t, http.StatusOK)
	}
	for path, code := range map[string]int{"/audit/0": http.StatusNotFound, "/audit/x": http.StatusNotFound, "/audit/99999": http.StatusNotFound, "/audit?since=soon": http.StatusUnprocessableEntity, "/audit?zone=Nowhere": http.StatusUnprocessableEntity, "/audit?before=-1": http.StatusUnprocessableEntity} {
		if a := admin.call(t, "GET", path, nil); a.StatusCode != code && (code != http.StatusUnprocessableEntity || a.StatusCode != http.StatusBadRequest) {
			t.Errorf("%s: %d %s", path, a.StatusCode, a.body)
		}
	}
	w.cli(t, ana).call(t, "GET", "/audit", nil).want(t, http.StatusForbidden)
	w.token(t, adam, "read").call(t, "GET", "/audit", nil).want(t, http.StatusForbidden)
}
