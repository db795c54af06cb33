package policy

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
)

// AnyModel in a price list is every model of the provider that the list does not name.
const AnyModel = "*"

// MaxMicros is the greatest amount of money that is counted, in millionths of the installation's currency; what would be
// more counts as this much.
const MaxMicros = 1_000_000_000_000

// Price is what a model costs, in millionths of the installation's currency for a million tokens. Both are needed; 0 is a
// model that costs nothing.
type Price struct {
	InMicros  *int64 `yaml:"in_micros" json:"in_micros"`
	OutMicros *int64 `yaml:"out_micros" json:"out_micros"`
}

// Prices are the price lists of providers: model by model.
type Prices map[string]map[string]Price

// Cost estimates what tokens cost, rounded up, or reports that the list has no price for the model.
func (p Prices) Cost(provider, model string, in, out int64) (micros int64, known bool) {
	list := p[provider]
	price, ok := list[model]
	if !ok {
		price, ok = list[AnyModel]
	}
	if !ok || price.InMicros == nil || price.OutMicros == nil {
		return 0, false
	}
	sum := new(big.Int).Mul(big.NewInt(in), big.NewInt(*price.InMicros))
	sum.Add(sum, new(big.Int).Mul(big.NewInt(out), big.NewInt(*price.OutMicros)))
	sum.Add(sum, big.NewInt(999_999)).Div(sum, big.NewInt(1_000_000))
	if !sum.IsInt64() || sum.Int64() > MaxMicros {
		return MaxMicros, true
	}
	return sum.Int64(), true
}

func (p Prices) clone() Prices {
	p = maps.Clone(p)
	for provider, list := range p {
		list = maps.Clone(list)
		for model, price := range list {
			if price.InMicros != nil {
				price.InMicros = new(*price.InMicros)
			}
			if price.OutMicros != nil {
				price.OutMicros = new(*price.OutMicros)
			}
			list[model] = price
		}
		p[provider] = list
	}
	return p
}

func (c *checker) prices(p Prices) {
	const most = 1_000_000_000
	for _, provider := range slices.Sorted(maps.Keys(p)) {
		path := "prices." + provider
		c.name(path, provider)
		c.ok(len(p[provider]) <= 1000, path, "must hold at most 1000 models")
		for _, model := range slices.Sorted(maps.Keys(p[provider])) {
			path := path + "." + model
			c.ok(model != "" && len(model) <= 200, path, "a model's name has 1 to 200 bytes")
			for _, n := range []struct {
				field string
				v     *int64
			}{{"in_micros", p[provider][model].InMicros}, {"out_micros", p[provider][model].OutMicros}} {
				switch {
				case n.v == nil:
					c.ok(false, path, n.field+" is missing: a price names in_micros and out_micros, 0 where nothing is charged")
				default:
					c.ok(*n.v >= 0 && *n.v <= most, path+"."+n.field, fmt.Sprintf("%d is outside 0 to %d", *n.v, most))
				}
			}
		}
	}
}
