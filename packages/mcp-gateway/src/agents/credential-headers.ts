import { check } from '@x/internal'
import type { Check } from '@x/internal'

import type { Clock } from '../internal/clock.ts'
import { withDeadline } from '../internal/deadline.ts'

type Headers = Readonly<Record<string, string>>

/** Headers that say who asks; a function is asked before each request, so that tokens may change. */
export type CredentialHeaders = Headers | (() => Headers | Promise<Headers>)

export const credentialHeaders: Check = {
  ...check.or(check.func, check.mapOf(check.string)),
  takes: 'headers by name, or a function that returns them',
}

export interface HeadersDeadline {
  readonly clock: Clock
  /** How long whoever gives them may take. */
  readonly ms: number
}

/** As they are now. @throws what the function throws; GatewayError `UNAVAILABLE` where it takes too long */
export async function headersNow(
  headers: CredentialHeaders,
  { clock, ms }: HeadersDeadline,
): Promise<Headers> {
  if (typeof headers !== 'function') return headers
  return withDeadline(Promise.resolve(headers()), { clock, ms, what: 'Asking for credentials' })
}
