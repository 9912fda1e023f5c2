/** Number of ways to match an expression with a text: `length ** power * 2 ** bits`. */
export interface Ways {
  readonly power: number
  readonly bits: number
}

const ONE: Ways = { power: 0, bits: 0 }
const ENDLESS: Ways = { power: Number.POSITIVE_INFINITY, bits: 0 }

const MAX_EXPRESSION = 1000
/** Binary logarithm of the number of ways that the engine tries in some tens of milliseconds. */
const MAX_WAYS_BITS = 25

/**
 * Counts the ways to match a valid regular expression: in the worst case, JavaScript's engine tries all of them,
 * because it backtracks. Counts too many for some expressions.
 */
export function waysToMatch(expression: string): Ways {
  return expression.length > MAX_EXPRESSION ? ENDLESS : new WayCounter(expression).count()
}

/**
 * Returns the maximum length of a text, in characters, that an expression certainly matches within some tens of
 * milliseconds. Returns 0 if no length is certain.
 */
export function longestTextFor({ power, bits }: Ways): number {
  const left = MAX_WAYS_BITS - bits
  if (!Number.isFinite(power) || left <= 0) return 0
  return power === 0 ? Number.POSITIVE_INFINITY : Math.floor(2 ** (left / power))
}

class WayCounter {
  readonly #expression: string
  #at = 0

  constructor(expression: string) {
    this.#expression = expression
  }

  count(): Ways {
    const ways = this.#alternatives()
    if (this.#at < this.#expression.length) return ENDLESS
    // Without an anchor the engine starts again at each character.
    const isAnchored = this.#expression.startsWith('^') && !this.#expression.includes('|')
    return isAnchored ? ways : { ...ways, power: ways.power + 1 }
  }

  #alternatives(): Ways {
    let ways = this.#sequence()
    let count = 1
    for (; this.#takes('|'); count++) {
      const other = this.#sequence()
      const { max } = Math
      ways = { power: max(ways.power, other.power), bits: max(ways.bits, other.bits) }
    }
    return { ...ways, bits: ways.bits + Math.log2(count) }
  }

  #sequence(): Ways {
    let ways = ONE
    while (this.#at < this.#expression.length && !/[|)]/.test(this.#next)) {
      const part = this.#repeated(this.#atom())
      ways = { power: ways.power + part.power, bits: ways.bits + part.bits }
    }
    return ways
  }

  #atom(): Ways {
    if (this.#takes('(')) {
      this.#matches(/\?(?:<?[=!]|:|<[^>]*>)/y)
      const ways = this.#alternatives()
      this.#takes(')')
      return ways
    }
    // A back reference compares texts, which is not counted.
    if (this.#matches(/\\(?:[1-9]|k<)/y)) return ENDLESS
    if (!this.#matches(/\[(?:\\.|[^\]\\])*\]|\\[pPu]\{[^}]*\}|\\./sy)) this.#at++
    return ONE
  }

  #repeated(ways: Ways): Ways {
    const quantifier = this.#matches(/[*+?]|\{\d+(?:,\d*)?\}/y)
    if (quantifier === undefined) return ways
    this.#takes('?')
    const [min, max] = boundsOf(quantifier)
    if (max === Number.POSITIVE_INFINITY) {
      return ways.power > 0 || ways.bits > 0 ? ENDLESS : { power: 1, bits: 0 }
    }
    return { power: ways.power * max, bits: ways.bits * max + Math.log2(max - min + 1) }
  }

  get #next(): string {
    return this.#expression[this.#at] ?? ''
  }

  #takes(char: string): boolean {
    if (this.#next !== char) return false
    this.#at++
    return true
  }

  #matches(sticky: RegExp): string | undefined {
    sticky.lastIndex = this.#at
    const text = sticky.exec(this.#expression)?.[0]
    this.#at += text?.length ?? 0
    return text
  }
}

function boundsOf(quantifier: string): readonly [number, number] {
  if (quantifier === '?') return [0, 1]
  const [, min, comma, max] = /^\{(\d+)(,?)(\d*)\}$/.exec(quantifier) ?? []
  if (min === undefined) return [0, Number.POSITIVE_INFINITY]
  if (comma === '') return [Number(min), Number(min)]
  return [Number(min), max === '' ? Number.POSITIVE_INFINITY : Number(max)]
}
