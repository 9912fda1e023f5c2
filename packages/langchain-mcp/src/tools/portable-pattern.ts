/** Limit of repetitions. llama.cpp refuses about 2,000, together with those around (firecrawl#4512). */
export const MAX_REPETITIONS = 500

const CLASSES: ReadonlyMap<string, string> = new Map([
  ['d', '0-9'],
  ['w', 'A-Za-z0-9_'],
  ['s', String.raw` \t\n\r`],
])

/** Characters that mean something in an expression, so that they stay escaped. */
const SPECIAL = '^$.[]()|{}*+?\\'

const BLANKS = 'ntr'

/**
 * Returns an expression that matches the same texts in the syntax that all providers read, or undefined if there is
 * none: OpenAI refuses lookaround and other features of JavaScript, and llama.cpp expressions that are not for the
 * whole text, and escapes such as `\d` (cline#14019, llama.cpp#26930). Blanks other than those of ASCII count no more.
 */
export function portablePattern(pattern: string): string | undefined {
  const isWhole = /^\^.*[^\\]\$$/s.test(pattern)
  return isWhole ? new Reader(pattern.slice(1, -1)).read() : undefined
}

/** Reads an expression from left to right, and writes each part in the portable syntax. */
class Reader {
  readonly #text: string
  #at = 0
  #depth = 0

  constructor(text: string) {
    this.#text = text
  }

  read(): string | undefined {
    let written = '^'
    while (this.#at < this.#text.length) {
      const part = this.#part()
      if (part === undefined) return undefined
      written += part
    }
    return `${written}$`
  }

  /** Takes what an expression matches here, or returns undefined. */
  #take(expression: RegExp): RegExpExecArray | undefined {
    const sticky = new RegExp(expression, 'sy')
    sticky.lastIndex = this.#at
    const found = sticky.exec(this.#text)
    if (found === null) return undefined
    this.#at += found[0].length
    return found
  }

  #part(): string | undefined {
    const [quantifier, least = '0', most = '0'] =
      this.#take(/(?:[*+?]|\{(\d+)(?:,(\d*))?\})\??/) ?? []
    if (quantifier !== undefined) {
      const isLarge = Math.max(Number(least), Number(most)) > MAX_REPETITIONS
      // A text as a whole is matched alike by as many and by as few repetitions as possible.
      return isLarge ? undefined : quantifier.replace(/(.)\?$/, '$1')
    }
    const escaped = this.#take(/\\(.)/)?.[1]
    if (escaped !== undefined) return this.#escaped(escaped)
    if (this.#take(/\((?:\?:|\?<[A-Za-z]\w*>|(?!\?))/) !== undefined) {
      this.#depth++
      return '('
    }
    if (this.#take(/\)/) !== undefined) {
      this.#depth--
      return ')'
    }
    if (this.#take(/\[/) !== undefined) return this.#set()
    // Outside of a group, it would divide the expression with its anchors.
    if (this.#take(/\|/) !== undefined) return this.#depth > 0 ? '|' : undefined
    return this.#take(/[^\\[\](){}^$|]/)?.[0]
  }

  #escaped(char: string): string | undefined {
    const ofClass = CLASSES.get(char.toLowerCase())
    if (ofClass !== undefined) return char === char.toLowerCase() ? `[${ofClass}]` : `[^${ofClass}]`
    if (BLANKS.includes(char) || SPECIAL.includes(char)) return `\\${char}`
    return /\w/.test(char) ? undefined : char
  }

  /** Reads a set of characters after its bracket. */
  #set(): string | undefined {
    const start = this.#take(/\^/) === undefined ? '[' : '[^'
    let written = start
    for (;;) {
      const [part, escaped] = this.#take(/\\(.)|[^\\]/) ?? []
      if (part === undefined) return undefined
      if (part === ']') {
        // Some syntaxes have operators for sets, and no empty ones.
        return written === start || /&&|--|~~/.test(written) ? undefined : `${written}]`
      }
      const added = escaped === undefined ? part.replace('[', String.raw`\[`) : inSet(escaped)
      if (added === undefined) return undefined
      written += added
    }
  }
}

function inSet(char: string): string | undefined {
  if (CLASSES.has(char)) return CLASSES.get(char)
  if (char === '-' || char === '^') return char === '-' ? String.raw`\x2D` : String.raw`\x5E`
  if (BLANKS.includes(char) || '[]\\'.includes(char)) return `\\${char}`
  return /\w/.test(char) ? undefined : char
}
