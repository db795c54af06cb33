package ui

// Icon is the path data of a 16 by 16 pictogram, drawn with the current colour.
type Icon struct {
	Line string // stroked
	Fill string // filled
}

// The icons. Shapes differ per family, so that a state is readable in grey.
var (
	IconQueued       = Icon{Line: "M8 2.2a5.8 5.8 0 1 0 0 11.6A5.8 5.8 0 0 0 8 2.2z"}
	IconRunning      = Icon{Line: "M8 2.2a5.8 5.8 0 1 1-5.5 4", Fill: "M8 5.6a2.4 2.4 0 1 0 0 4.8 2.4 2.4 0 0 0 0-4.8z"}
	IconWaiting      = Icon{Line: "M5 8.2V4.4a1 1 0 0 1 2 0V3.2a1 1 0 0 1 2 0v1a1 1 0 0 1 2 0v1.6a1 1 0 0 1 2 0v3.4c0 3-1.8 5-4.6 5-2.2 0-3.2-1-4.2-2.8L2.8 8.6a1 1 0 0 1 1.7-1z"}
	IconDone         = Icon{Line: "M5.2 8.2 7.2 10.2 11 6M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 0 0 8 1.8z"}
	IconFailed       = Icon{Line: "M5.5 5.5l5 5m0-5-5 5M2.2 2.2h11.6v11.6H2.2z"}
	IconCancelled    = Icon{Line: "M3.9 12.1l8.2-8.2M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 0 0 8 1.8z"}
	IconExpired      = Icon{Line: "M8 4.6V8l2.4 1.6M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 0 0 8 1.8z"}
	IconDenied       = Icon{Line: "M8 1.6 13.2 3.5v4c0 3.3-2.2 5.6-5.2 6.9C5 13.1 2.8 10.8 2.8 7.5v-4zM6 6l4 4m0-4-4 4"}
	IconNote         = Icon{Line: "M3 2.5h10v11H3zM5.5 6h5M5.5 9h3.5"}
	IconRiskLow      = Icon{Line: "M2.5 13.5v-3h2.5v3z", Fill: "M2.5 10.5H5v3H2.5z"}
	IconRiskMedium   = Icon{Line: "M2.5 13.5v-3H5v3zM6.8 13.5V7.5h2.4v6z", Fill: "M2.5 10.5H5v3H2.5zM6.8 7.5h2.4v6H6.8z"}
	IconRiskHigh     = Icon{Line: "M2.5 13.5v-3H5v3zM6.8 13.5V7.5h2.4v6zM11 13.5v-9h2.5v9z", Fill: "M2.5 10.5H5v3H2.5zM6.8 7.5h2.4v6H6.8zM11 4.5h2.5v9H11z"}
	IconRiskCritical = Icon{Line: "M8 2 14.5 13.5h-13zM8 6.5V10", Fill: "M7.3 11.2h1.4v1.3H7.3z"}
	IconWarning      = Icon{Line: "M8 2 14.5 13.5h-13zM8 6.5V10", Fill: "M7.3 11.2h1.4v1.3H7.3z"}
	IconInfo         = Icon{Line: "M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 0 0 8 1.8zM8 7.3v4", Fill: "M7.3 4.2h1.4v1.5H7.3z"}
	IconPerson       = Icon{Line: "M8 2.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6zM2.6 14c.4-3 2.5-4.6 5.4-4.6s5 1.6 5.4 4.6"}
	IconAgent        = Icon{Line: "M3 5.5h10v8H3zM8 5.5V2.5M1.5 8.5v2.5M14.5 8.5v2.5M6 11.3h4", Fill: "M5.3 7.7h1.6v1.6H5.3zM9.1 7.7h1.6v1.6H9.1z"}
	IconMachine      = Icon{Line: "M2 3h12v4.3H2zM2 8.7h12V13H2zM4.5 5.2h2M4.5 10.9h2"}
	IconPolicy       = Icon{Line: "M8 1.6 13.2 3.5v4c0 3.3-2.2 5.6-5.2 6.9C5 13.1 2.8 10.8 2.8 7.5v-4zM5.6 7.7l1.7 1.7 3.1-3.2"}
	IconBranch       = Icon{Line: "M4.5 5.5v5M4.5 2.2a1.6 1.6 0 1 0 0 3.3 1.6 1.6 0 0 0 0-3.3zM4.5 10.5a1.6 1.6 0 1 0 0 3.3 1.6 1.6 0 0 0 0-3.3zM11.5 4.2a1.6 1.6 0 1 0 0 3.3 1.6 1.6 0 0 0 0-3.3zM11.5 7.5c0 2.5-3.5 2-7 3"}
	IconFile         = Icon{Line: "M3.5 1.8h6l3 3v9.4h-9zM9.3 1.8V5h3.2"}
	IconChevron      = Icon{Line: "M4 6l4 4 4-4"}
	IconPlus         = Icon{Line: "M8 3v10M3 8h10"}
	IconClock        = Icon{Line: "M8 4.6V8l2.4 1.6M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 0 0 8 1.8z"}
	IconTool         = Icon{Line: "M2.5 3h11v10h-11zM5 6.5 7 8.3 5 10.1M8.5 10.3h2.5"}
)
