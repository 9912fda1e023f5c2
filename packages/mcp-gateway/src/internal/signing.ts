import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'

import { GatewayError } from '../errors.ts'

const MIN_BYTES = 32

export interface StateKeyOptions {
  readonly stateKey: string | Uint8Array | undefined
  /** True if other processes verify the texts that this process signs. */
  readonly isShared: boolean
  /** True if signed texts could be used after a restart. */
  readonly isLasting: boolean
  readonly onWarning: (message: string) => void
}

/**
 * Returns the key that signs cursors, states of questions, and links.
 *
 * @throws GatewayError `CONFIG` if the key is too short for a secret, or is missing where processes must share it
 */
export function stateKeyFrom({
  stateKey,
  isShared,
  isLasting,
  onWarning,
}: StateKeyOptions): Uint8Array {
  const path = 'stateKey'
  if (stateKey === undefined && isShared) {
    const message =
      'With a shared store, every process needs the same stateKey: make one with `openssl rand -hex 32`'
    throw new GatewayError('CONFIG', message, { path })
  }
  if (stateKey === undefined) {
    if (isLasting) onWarning('No stateKey: cursors and open questions end with this process')
    return randomBytes(MIN_BYTES)
  }
  const key = typeof stateKey === 'string' ? Buffer.from(stateKey) : stateKey
  if (key.byteLength >= MIN_BYTES) return key
  throw new GatewayError('CONFIG', `stateKey needs ${MIN_BYTES} bytes or more`, { path })
}

/** Cursors that clients cannot forge. All processes that serve a list need the same key. */
export class SignedCursors {
  readonly #key: Uint8Array | string

  constructor(key: Uint8Array | string) {
    this.#key = key
  }

  /** @param list name of the list, with its caller: the cursor is valid for this list only */
  seal(list: string, after: string): string {
    const text = Buffer.from(after).toString('base64url')
    return `${text}.${this.#sign(list, text).toString('base64url')}`
  }

  /** Returns `after` of `seal()`. `undefined`: the text is not a cursor of this list. */
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
