import type { RefusedRequest } from '../../internal/observer.ts'

/** What is said of an endpoint and not of who asks: there is no such thing, or not by this method. */
const NOT_OF_THE_CALLER = new Set([404, 405])

/**
 * Why an endpoint of an authenticator turned somebody away; `undefined`: it did not. Errors reach clients as answers,
 * or, once it is known where they may go, by way of the browser (RFC 6749, section 4.1.2.1).
 */
export function signInRefusal(response: Response): RefusedRequest['reason'] | undefined {
  const { headers, status } = response
  if (status === 429) return 'too_many'
  if (status >= 500) return 'unavailable'
  if (status >= 400) return NOT_OF_THE_CALLER.has(status) ? undefined : 'sign_in'
  // An authenticator may be anybody's: what is no answer is for others to report.
  const target = headers?.get('location') ?? ''
  if (!URL.canParse(target)) return undefined
  return new URL(target).searchParams.has('error') ? 'sign_in' : undefined
}
