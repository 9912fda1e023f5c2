/** Site of the documents: the `homepage` of the root's package.json, which a test compares. `pnpm rename-scope` sets both. */
const SITE = 'https://mcp-sessions.example'

/** Leads to the page of all error codes. The name of a code in lower case follows, as its section is named. */
const ADDRESS = `${SITE}/e#`

const SENTENCE = new RegExp(
  `(?:\\.? |\\n)See ${ADDRESS.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')}\\w+`,
  'g',
)

/**
 * Returns the message of an error with the address of the section about its code, as a last sentence. Addresses that
 * the message has from other errors are removed, so that it names one section.
 */
export function withErrorLink(message: string, code: string): string {
  const text = withoutErrorLink(message)
  // A list of lines would hide it at the end of its last line.
  const before = text.includes('\n') ? '\n' : /[.!?…]$/.test(text) ? ' ' : '. '
  return `${text}${before}See ${ADDRESS}${code.toLowerCase()}`
}

/** Base of errors with a code. Their message ends with the address of the section about the code. */
export class CodedError<Code extends string> extends Error {
  /** Stable: callers switch on it. */
  readonly code: Code

  constructor(code: Code, message: string, options?: ErrorOptions) {
    super(withErrorLink(message, code), options)
    this.code = code
  }

  /** `JSON.stringify()` leaves the message of an `Error` out. */
  toJSON(): object {
    return Object.assign({}, this, { message: this.message })
  }
}

/**
 * Returns a text without these addresses. For texts that another text quotes, that a model reads, and that a client of
 * a gateway gets.
 */
export function withoutErrorLink(text: string): string {
  return splitErrorLink(text)[0]
}

/** Separates a text from its last address, which may be empty: a text that is cut must not end in half of it. */
export function splitErrorLink(text: string): readonly [text: string, link: string] {
  const links = text.includes(ADDRESS) ? text.match(SENTENCE) : null
  return links === null ? [text, ''] : [text.replaceAll(SENTENCE, ''), links.at(-1) ?? '']
}
