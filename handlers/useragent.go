package handlers

import "strings"

// browserWords says which browser and system a program names itself, such as "Firefox on Linux". It is a hint for the person
// whose session it is: any program may call itself anything.
func browserWords(agent string) string {
	first := func(names ...[2]string) string {
		for _, n := range names {
			if strings.Contains(agent, n[0]) {
				return n[1]
			}
		}
		return ""
	}
	// Most browsers name those before them, too; the order is from the narrower to the wider.
	browser := first([2]string{"Edg", "Edge"}, [2]string{"OPR/", "Opera"}, [2]string{"SamsungBrowser/", "Samsung Internet"}, [2]string{"Firefox/", "Firefox"},
		[2]string{"FxiOS/", "Firefox"}, [2]string{"CriOS/", "Chrome"}, [2]string{"HeadlessChrome/", "Chrome without a window"}, [2]string{"Chrome/", "Chrome"}, [2]string{"Safari/", "Safari"})
	system := first([2]string{"Android", "Android"}, [2]string{"iPhone", "an iPhone"}, [2]string{"iPad", "an iPad"}, [2]string{"Windows", "Windows"},
		[2]string{"CrOS", "ChromeOS"}, [2]string{"Mac OS X", "macOS"}, [2]string{"Linux", "Linux"})
	switch {
	case browser != "" && system != "":
		return browser + " on " + system
	case browser != "":
		return browser
	case system != "":
		return "Another program on " + system
	}
	return "Another program"
}
