import { randomBytes } from 'node:crypto'

import { GatewayError } from '../errors.ts'

const MIN_BYTES = 32

export interface StateKeyOptions {
  readonly stateKey: string | Uint8Array | undefined
  /** Other processes have to verify what is signed here. */
  readonly isShared: boolean
  /** What is signed could be used after a restart. @default true */
  readonly isLasting?: boolean | undefined
  readonly onWarning: (message: string) => void
}

/**
 * What signs cursors, questions and links.
 *
 * @throws GatewayError `CONFIG` if it is too short to be a secret, or missing where it has to be shared
 */
export function stateKeyFrom({
  stateKey,
  isShared,
  isLasting = true,
  onWarning,
}: StateKeyOptions): Uint8Array {
  const path = 'secrets.stateKey'
  if (stateKey === undefined && isShared) {
    const message = 'With a shared store, every process needs the same secrets.stateKey'
    throw new GatewayError('CONFIG', message, { path })
  }
  if (stateKey === undefined) {
    if (isLasting)
      onWarning('No secrets.stateKey: cursors and open questions end with this process')
    return randomBytes(MIN_BYTES)
  }
  const key = typeof stateKey === 'string' ? Buffer.from(stateKey) : stateKey
  if (key.byteLength >= MIN_BYTES) return key
  throw new GatewayError('CONFIG', `secrets.stateKey needs ${MIN_BYTES} bytes or more`, { path })
}
