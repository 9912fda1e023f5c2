import type { IncomingMessage } from 'node:http'

/**
 * Headers of a request of `node:http`. The few that are asked for by name are looked up as they came in; a real
 * `Headers`, which checks and copies each of them, is made for all other uses only.
 */
export class NodeHeaders implements Headers {
  readonly #raw: readonly string[]
  #values: Map<string, string> | undefined
  #whole: Headers | undefined

  constructor({ rawHeaders }: Pick<IncomingMessage, 'rawHeaders'>) {
    this.#raw = rawHeaders
  }

  get(name: string): string | null {
    if (this.#whole) return this.#whole.get(name)
    this.#values ??= valuesOf(this.#raw)
    return this.#values.get(name.toLowerCase()) ?? null
  }

  has(name: string): boolean {
    return this.get(name) !== null
  }

  append(name: string, value: string): void {
    this.#all().append(name, value)
  }

  set(name: string, value: string): void {
    this.#all().set(name, value)
  }

  delete(name: string): void {
    this.#all().delete(name)
  }

  getSetCookie(): string[] {
    return this.#all().getSetCookie()
  }

  forEach(...[callback, self]: Parameters<Headers['forEach']>): void {
    this.#all().forEach((value, key) => callback.call(self, value, key, this))
  }

  keys(): ReturnType<Headers['keys']> {
    return this.#all().keys()
  }

  values(): ReturnType<Headers['values']> {
    return this.#all().values()
  }

  entries(): ReturnType<Headers['entries']> {
    return this.#all().entries()
  }

  [Symbol.iterator](): ReturnType<Headers['entries']> {
    return this.entries()
  }

  #all(): Headers {
    if (this.#whole) return this.#whole
    const whole = new Headers()
    const raw = this.#raw
    for (let at = 0; at + 1 < raw.length; at += 2) whole.append(raw[at] ?? '', raw[at + 1] ?? '')
    this.#whole = whole
    return whole
  }
}

/** By names in small letters; of headers that came several times, all values, as `Headers` gives them. */
function valuesOf(raw: readonly string[]): Map<string, string> {
  const values = new Map<string, string>()
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = raw[at]?.toLowerCase() ?? ''
    const value = raw[at + 1] ?? ''
    const before = values.get(name)
    const between = name === 'cookie' ? '; ' : ', '
    values.set(name, before === undefined ? value : `${before}${between}${value}`)
  }
  return values
}
