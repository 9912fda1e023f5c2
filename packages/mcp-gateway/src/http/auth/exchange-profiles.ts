/** What a token endpoint expects of an exchange. Authorization servers differ in data only. */
export interface ExchangeProfile {
  readonly grantType: string
  /** Parameter that holds the token of the caller. */
  readonly subjectParameter: 'subject_token' | 'assertion'
  /** @default the parameter is not sent */
  readonly subjectTokenType?: string | undefined
  /** @default the parameter is not sent */
  readonly requestedTokenType?: string | undefined
  /** Parameters that name the target. */
  readonly targetParameters: readonly ('audience' | 'resource')[]
  /** `basic`: HTTP Basic. `body`: `client_id` and `client_secret` in the form. */
  readonly clientAuthentication: 'basic' | 'body'
  /** More parameters. @default none */
  readonly parameters?: Readonly<Record<string, string>> | undefined
  /**
   * For servers that take the target from the scope: without scopes, the scope is the resource with this suffix. The
   * audience of the token is another name then, and is not checked. @default the target is in `targetParameters`
   */
  readonly scopeSuffix?: string | undefined
}

const TOKEN_EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'
export const JWT_BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer'
const TYPE = 'urn:ietf:params:oauth:token-type:'

const RFC8693: ExchangeProfile = {
  grantType: TOKEN_EXCHANGE,
  subjectParameter: 'subject_token',
  subjectTokenType: `${TYPE}access_token`,
  requestedTokenType: `${TYPE}access_token`,
  targetParameters: ['audience', 'resource'],
  clientAuthentication: 'basic',
}

export const EXCHANGE_PROFILE_NAMES = ['rfc8693', 'keycloak', 'auth0', 'entra', 'id-jag'] as const

/** `rfc8693`: any server that follows the standard. */
export type ExchangeProfileName = (typeof EXCHANGE_PROFILE_NAMES)[number]

export const ID_JAG: string = `${TYPE}id-jag`

/** Profiles by name. */
export const EXCHANGE_PROFILES: Readonly<Record<ExchangeProfileName, ExchangeProfile>> = {
  rfc8693: RFC8693,
  /** Standard token exchange (V2). The target is the client id of the server: `resource` is refused. */
  keycloak: { ...RFC8693, targetParameters: ['audience'] },
  auth0: { ...RFC8693, targetParameters: ['audience'], clientAuthentication: 'body' },
  /** On-behalf-of. The target is part of the scope. */
  entra: {
    grantType: JWT_BEARER,
    subjectParameter: 'assertion',
    targetParameters: [],
    clientAuthentication: 'body',
    parameters: { requested_token_use: 'on_behalf_of' },
    scopeSuffix: '/.default',
  },
  /** Enterprise-managed authorization: the ID-JAG is exchanged again, at the server of the target. The subject is an ID token. */
  'id-jag': {
    ...RFC8693,
    subjectTokenType: `${TYPE}id_token`,
    requestedTokenType: ID_JAG,
  },
}
