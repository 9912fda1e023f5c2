export interface CallbackIssuer {
  /** `iss` of the callback, as it came. */
  readonly iss: string | undefined
  /** The issuer that was recorded before the redirect. */
  readonly recorded: string
  /** `authorization_response_iss_parameter_supported` of its metadata. */
  readonly isAdvertised: boolean
}

/**
 * Whether a callback comes from the authorization server that was asked (RFC 9207, section 2.4): compared
 * as strings, with no normalisation; a missing `iss` is wrong only where one was promised.
 */
export function callbackIssuerVerdict({
  iss,
  recorded,
  isAdvertised,
}: CallbackIssuer): 'accept' | 'missing' | 'other' {
  if (iss === undefined) return isAdvertised ? 'missing' : 'accept'
  return iss === recorded ? 'accept' : 'other'
}
