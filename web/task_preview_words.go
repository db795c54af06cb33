package web

// PreviewWords is a preview in the sentences of the page, for those who read it elsewhere.
type PreviewWords struct {
	// Verdict says whether work would begin, Reasons why.
	Verdict string
	Reasons []string
	Gates   []PreviewGate
	// Unasked says of which decisions nobody is asked, and why.
	Unasked  []string
	Attested string
	// Barred says why the reader may not approve; empty where nobody is asked.
	Barred string
	// Wait, Cost, Time and Bounds are empty where no run would come of it.
	Wait, Cost, Time, Bounds string
}

// PreviewGate is one decision of a person that lies ahead.
type PreviewGate struct {
	Kind, Role string
	Quorum     int
	// Title says what is decided, by how many, and in which case; Short that too few people may approve it.
	Title, Short string
	Reasons      []string
	People       []string
}

// Words says the preview in the page's sentences.
func (d TaskPreviewData) Words() PreviewWords {
	_, verdict := d.verdict()
	w := PreviewWords{Verdict: verdict, Reasons: d.verdictReasons(), Unasked: d.unasked(), Attested: d.Attested}
	for _, g := range d.gates() {
		w.Gates = append(w.Gates, PreviewGate{Kind: string(g.Kind), Role: string(g.Role), Quorum: g.Quorum, Title: g.title(), Short: g.short(), Reasons: g.Reasons, People: g.people})
	}
	if d.Barred != "" && len(w.Gates) > 0 {
		w.Barred = d.barred()
	}
	if d.begins() {
		w.Wait, w.Cost, w.Time, w.Bounds = d.Wait.expected(d.Now), d.Last.cost(d.Currency), d.Last.worked(), d.bounds()
	}
	return w
}
