package handlers

import (
	"net/http"
	"reflect"
	"time"

	"signalbox/web"
)

// sentLog remembers what one client has of a log besides the lines that have ended.
type sentLog struct {
	open  string
	state web.StepView
	live  bool
	any   bool
}

// streamLog sends the lines that a log has gained since the client's cursor, which counts the lines that have ended.
func (s *server) streamLog(w http.ResponseWriter, r *http.Request) error {
	o, err := s.openLog(r)
	if err != nil {
		return err
	}
	var style web.LogView
	if err := readLogStyle(r, &style); err != nil {
		return err
	}
	var sent sentLog
	return s.stream(w, r, o.run.ID, func(after int64, _ time.Time) (message, bool, error) { return s.logMessage(r, after, style, &sent) })
}

func (s *server) logMessage(r *http.Request, after int64, style web.LogView, sent *sentLog) (message, bool, error) {
	// The step is read before its log, so that one that has ended lacks nothing.
	o, err := s.openLog(r)
	if err != nil {
		return message{}, false, err
	}
	page := s.logPage(r, o)
	page.Log.Times = style.Times
	d := web.LogLiveData{Page: page}
	from := after + 1
	if o.log.Ends-after > web.LogWindow || after > o.log.Ends {
		d.Anew, from = true, 0
	}
	if err := s.liveLines(r, o, from, &d); err != nil {
		return message{}, false, err
	}
	now := sentLog{live: page.Log.Live, any: true}
	if page.Step != nil {
		now.state = *page.Step
	}
	if d.Open != nil {
		now.open = d.Open.Text
	}
	m := message{seq: o.log.Ends, last: !page.Log.Live}
	if len(d.Lines) == 0 && reflect.DeepEqual(*sent, now) {
		return m, false, nil
	}
	m.body = web.LogLive(d)
	*sent = now
	return m, true, nil
}

// liveLines reads what is new: the lines from one on, or the end of the log where that is 0.
func (s *server) liveLines(r *http.Request, o openedLog, from int64, d *web.LogLiveData) (err error) {
	var lines []web.LogLine
	if from == 0 {
		lines, err = s.tail(r.Context(), o.log.LogKey, o.log.Lines(), web.LogWindow)
	} else if n := int(o.log.Lines() - from + 1); n > 0 {
		lines, err = s.tail(r.Context(), o.log.LogKey, o.log.Lines(), n)
		// What did not fit in one message is shown by its end.
		d.Anew = len(lines) > 0 && lines[0].No != from
	}
	if err != nil {
		return err
	}
	d.Page.Log.Lines, d.Page.Log.Tail = lines, true
	if n := len(lines); n > 0 && lines[n-1].No > o.log.Ends {
		d.Open = &lines[n-1]
		lines = lines[:n-1]
	}
	d.Lines = lines
	for _, l := range lines {
		d.Page.Log.Stopped = d.Page.Log.Stopped || isOutputLimit(l.Text)
	}
	return nil
}
