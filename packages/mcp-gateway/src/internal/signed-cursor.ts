import { createHmac, timingSafeEqual } from 'node:crypto'

/** Where a list goes on. The same key must be known to every process that serves the list. */
export class SignedCursors {
  readonly #key: Uint8Array | string

  constructor(key: Uint8Array | string) {
    this.#key = key
  }

  /** @param list what is listed, and for whom: it is no cursor of any other list */
  seal(list: string, after: string): string {
    const text = Buffer.from(after).toString('base64url')
    return `${text}.${this.#sign(list, text).toString('base64url')}`
  }

  /** @returns after what the list goes on; `undefined`: no cursor of this list */
  open(list: string, cursor: string): string | undefined {
    const [text = '', signature = '', ...rest] = cursor.split('.')
    const expected = this.#sign(list, text)
    const given = Buffer.from(signature, 'base64url')
    if (rest.length > 0 || given.length !== expected.length) return undefined
    if (!timingSafeEqual(given, expected)) return undefined
    return Buffer.from(text, 'base64url').toString('utf8')
  }

  #sign(list: string, text: string): Buffer {
    const hmac = createHmac('sha256', this.#key)
    return hmac.update(`mcp-gateway.cursor\0${list}\0${text}`).digest().subarray(0, 16)
  }
}
