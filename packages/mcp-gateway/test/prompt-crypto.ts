import { createHmac, timingSafeEqual } from 'node:crypto'

import { vi } from 'vitest'

/**
 * Signs and verifies in the turn in which it is asked to: how long the threads of WebCrypto take differs, and with it
 * the order of all that comes after. Until `vi.restoreAllMocks`.
 */
export function promptCrypto(): void {
  const { subtle } = globalThis.crypto
  const hmac = (key: unknown, data: unknown): Uint8Array<ArrayBuffer> =>
    Uint8Array.from(
      createHmac('sha256', key as Uint8Array)
        .update(data as Uint8Array)
        .digest(),
    )
  vi.spyOn(subtle, 'importKey').mockImplementation(async (_, key) => key as never)
  vi.spyOn(subtle, 'sign').mockImplementation(async (_, key, data) => hmac(key, data).buffer)
  vi.spyOn(subtle, 'verify').mockImplementation(async (...[, key, mac, data]) =>
    timingSafeEqual(hmac(key, data), mac as Uint8Array),
  )
}
