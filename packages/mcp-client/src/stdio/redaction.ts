export interface SecretSources {
  /** All values are secrets. */
  readonly secrets: Readonly<Record<string, string>>
  /** Nobody says which values are secrets: those that are long enough to be one are taken for one. */
  readonly env: Readonly<Record<string, string>>
  /** What follows an option whose name says so is a secret: `--api-key x`, `--token=x`. */
  readonly args: readonly string[]
}

const LEAST_LENGTH = 8
const PLAIN_NAME =
  /^(?:PATH|PATHEXT|HOME|SHELL|TERM|USER|LOGNAME|LANG|TZ|NODE_ENV|NODE_OPTIONS|DEBUG)$/i
const SECRET_OPTION = /^--?[\w-]*(?:key|token|secret|passw|credential|auth)[\w-]*(?:=(.*))?$/is
const REMOVED = '[removed]'

/** Takes secrets out of what a child wrote, before anybody sees it. */
export class Redaction {
  /** Longest first, so that none is left in part where one begins another. */
  readonly #secrets: readonly string[]

  constructor(sources: SecretSources) {
    const found = [
      ...Object.values(sources.secrets).filter((value) => value.trim() !== ''),
      ...Object.entries(sources.env).flatMap(([name, value]) =>
        PLAIN_NAME.test(name) || value.length < LEAST_LENGTH ? [] : [value],
      ),
      ...secretsIn(sources.args),
    ]
    // A key of many lines is written line by line.
    const lines = found.flatMap((value) =>
      value.split(/\r?\n/).filter((line) => line.length >= LEAST_LENGTH),
    )
    this.#secrets = [...new Set([...found, ...lines])].toSorted((a, b) => b.length - a.length)
  }

  /** How much of a text must be known to see any secret in it. */
  get longest(): number {
    return this.#secrets[0]?.length ?? 0
  }

  applyTo(text: string): string {
    return this.#secrets.reduce((rest, secret) => rest.replaceAll(secret, REMOVED), text)
  }

  /** The start of a text that goes on: a secret that the cut went through does not show its first half. */
  applyToStart(text: string, length: number): string {
    const isCut = text.length > length
    const clean = this.applyTo(isCut ? text.slice(0, length + this.longest) : text)
    if (!isCut) return clean
    return `${clean.slice(0, Math.max(0, Math.min(length, clean.length - this.longest)))}…`
  }
}

function secretsIn(args: readonly string[]): readonly string[] {
  return args.flatMap((arg, index) => {
    const option = SECRET_OPTION.exec(arg)
    if (option === null) return []
    const value = option[1] ?? args[index + 1] ?? ''
    return value.length < LEAST_LENGTH || (option[1] === undefined && value.startsWith('-'))
      ? []
      : [value]
  })
}
