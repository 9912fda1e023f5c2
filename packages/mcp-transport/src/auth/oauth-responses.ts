import { isRecord } from '@x/internal'
import { parseJson } from '../json-rpc.ts'
import { TransportError } from '../transport-error.ts'
import { AuthError, type AuthErrorCode } from './auth-provider.ts'
import type { OAuthLibrary } from './oauth-flow.ts'

/**
 * Reads a metadata document. A response that is not a JSON object counts as missing, because many servers answer
 * unknown paths with a page or a redirect.
 *
 * @throws AuthError `DISCOVERY_FAILED` if the request fails: the server may have metadata
 */
export async function metadataDocument(
  response: Promise<Response>,
  url: URL,
): Promise<Record<string, unknown> | undefined> {
  try {
    const { ok, status } = await response
    if (status >= 500) throw new Error(`HTTP ${status}`)
    const document = ok ? parseJson(await (await response).text()) : undefined
    if (!isRecord(document)) return undefined
    const methods = document['code_challenge_methods_supported']
    // A server that lists no methods is used with S256, like one without a list (typescript-sdk#832).
    const isEmpty = Array.isArray(methods) && methods.length === 0
    return withFlags(
      withLists(
        withUrls(
          withoutEmpty({ ...document, ...(isEmpty && { code_challenge_methods_supported: null }) }),
        ),
      ),
    )
  } catch (cause) {
    const code = TransportError.is(cause) ? cause.code : undefined
    if (code === 'CLOSED') throw cause
    if (code === 'UNEXPECTED_RESPONSE') return undefined
    const message = `Metadata could not be read from ${url.origin}${url.pathname}`
    throw new AuthError('DISCOVERY_FAILED', message, { cause })
  }
}

/**
 * Reads the response of a token endpoint.
 *
 * @throws AuthError `TOKEN_REFUSED`, with `invalid_client` also if only the text says that the client is unknown
 */
export async function tokenResponse(response: Response, { origin }: URL): Promise<Response> {
  const { status, headers } = response
  const text = await response.text()
  const json = parseJson(text)
  const body = isRecord(json) ? withBearer(withoutEmpty(json)) : undefined
  // The library repeats the request once with the nonce.
  if (body?.['error'] === 'use_dpop_nonce') return new Response(text, { status, headers })
  const form = body === undefined ? formOf(response, text) : undefined
  const oauthError = printable(form?.get('error')) ?? refusalOf(response, text, body)
  const problem = oauthError ?? problemOf(response, body, form)
  if (problem === undefined) return Response.json(withTexts(body ?? {}), { status, headers })
  throw refused(`${origin} gave no usable token: ${problem}`, status, oauthError)
}

/**
 * Reads the response of a device authorization endpoint (RFC 8628, section 3.2).
 *
 * @throws AuthError `TOKEN_REFUSED` if the server refuses the request
 */
export async function deviceResponse(
  response: Response,
  { origin }: URL,
): Promise<Record<string, unknown>> {
  const text = await response.text()
  const json = parseJson(text)
  const body = isRecord(json) ? withoutEmpty(json) : undefined
  const oauthError = refusalOf(response, text, body)
  if (response.ok && oauthError === undefined) return body ?? {}
  const problem = oauthError ?? 'it gave no error code'
  throw refused(`${origin} gave no code for the user: ${problem}`, response.status, oauthError)
}

function refused(what: string, status: number, code: string | undefined): AuthError {
  const isBusy = status === 429 || status >= 500
  const oauthError = code ?? (isBusy ? 'temporarily_unavailable' : undefined)
  return new AuthError('TOKEN_REFUSED', `${what} (HTTP ${status})`, { oauthError })
}

/** Returns the error code of a response, or what its text means. */
function refusalOf(
  { ok, status }: Response,
  text: string,
  body: Record<string, unknown> | undefined,
): string | undefined {
  const code = errorCode(body)
  if (code !== undefined || ok) return code
  const isUnknownClient = REFUSALS.has(status) && UNKNOWN_CLIENT.test(text.slice(0, 1024))
  return isUnknownClient ? 'invalid_client' : undefined
}

/** A gateway before the server answers with other statuses. */
const REFUSALS = new Set([400, 401, 404, 422])

/** Texts of servers that do not use the code `invalid_client` (supabase/mcp#355). */
const UNKNOWN_CLIENT =
  /(?:unrecogni[sz]ed|unknown|unregistered|invalid) client(?:[_ ]?id)?\b|client(?:[_ ]?id)? (?:(?:was|is|does|could) )?not (?:be )?(?:found|registered|recogni[sz]ed|known|exist)/i

/** Returns why a response without an error code contains no token. Returns undefined for a token. */
function problemOf(
  { ok, headers }: Response,
  body: Record<string, unknown> | undefined,
  form: URLSearchParams | undefined,
): string | undefined {
  if (form !== undefined) {
    return 'it answered with a form (application/x-www-form-urlencoded) instead of JSON (RFC 6749, section 5.1)'
  }
  if (!ok) return 'it gave no error code'
  if (body === undefined) {
    const type = mediaTypeOf(headers)
    return `it answered with ${type === 'application/json' ? 'malformed JSON' : `${type} instead of JSON`}`
  }
  const { access_token: token, token_type: type } = body
  if (typeof token !== 'string') return 'the response has no access_token'
  const isKnown = typeof type === 'string' && /^(?:bearer|dpop)$/i.test(type)
  return isKnown ? undefined : 'its token_type is not supported'
}

/**
 * Names of a bearer token: of Slack (different-ai/openwork#3569), of Apigee, and of servers that leave the type out
 * (slackhq/slack-api-docs#68). Another type is refused, because nothing says how to send such a token.
 */
const BEARER = /^(?:bearer|bearertoken|user|bot)$/i

function withBearer(body: Record<string, unknown>): Record<string, unknown> {
  const { access_token: token, token_type: type = 'Bearer' } = body
  const isBearer = typeof type === 'string' && BEARER.test(type.trim())
  return typeof token === 'string' && isBearer ? { ...body, token_type: 'Bearer' } : body
}

/** Returns the parameters of a form, as GitHub sends it to clients that do not ask for JSON (typescript-sdk#759). */
function formOf({ headers }: Response, text: string): URLSearchParams | undefined {
  const isForm =
    mediaTypeOf(headers) === 'application/x-www-form-urlencoded' ||
    /^(?:[\w.-]+=[^&\s<]*&)*(?:access_token|error)=[^\s<]*$/.test(text.trim())
  return isForm ? new URLSearchParams(text) : undefined
}

function mediaTypeOf(headers: Headers): string {
  const [type = ''] = (headers.get('content-type') ?? '').toLowerCase().split(';', 1)
  return /^[\w.+-]{1,64}\/[\w.+-]{1,64}$/.test(type.trim()) ? type.trim() : 'another type'
}

/**
 * Reads the response of a registration endpoint. A server that does not repeat the redirect URLs has registered
 * those of the request (RFC 7591, section 3.2.1).
 */
export async function registrationResponse(response: Response, sent: unknown): Promise<Response> {
  if (!response.ok) return response
  const { status, headers } = response
  const text = await response.text()
  const body = parseJson(text)
  if (!isRecord(body)) return new Response(text, { status, headers })
  const registered = withUrls(withLists(withTexts(withoutEmpty(body))))
  const uris = registered['redirect_uris']
  const request = parseJson(String(sent))
  if (isRecord(request) && (uris === undefined || (Array.isArray(uris) && uris.length === 0))) {
    registered['redirect_uris'] = request['redirect_uris']
  }
  return Response.json(registered, { status, headers })
}

/** Leaves out members that are null or empty text: servers send them for absent ones (sigbit/mcp-auth-proxy#173). */
function withoutEmpty(document: Record<string, unknown>): Record<string, unknown> {
  const members = Object.entries(document)
  return Object.fromEntries(members.filter(([, value]) => value !== null && value !== ''))
}

/** Members that hold a list. */
const LIST =
  /^(?:authorization_servers|grant_types|response_types|redirect_uris|contacts|\w+_supported)$/

/**
 * Makes lists of texts, and drops other values from lists. Metadata without response types get `code`.
 */
function withLists(document: Record<string, unknown>): Record<string, unknown> {
  const members = Object.entries(document).map(([name, value]) => [
    name,
    LIST.test(name) ? listFrom(value) : value,
  ])
  const lists: Record<string, unknown> = Object.fromEntries(members)
  const { authorization_endpoint: endpoint, response_types_supported: types } = lists
  const hasNone = types === undefined || (Array.isArray(types) && types.length === 0)
  return endpoint !== undefined && hasNone
    ? { ...lists, response_types_supported: ['code'] }
    : lists
}

/** PHP sends a list with gaps as an object. */
function listFrom(value: unknown): unknown {
  if (typeof value === 'boolean' || isFlag(value)) return value
  if (typeof value === 'string') return value.trim().split(/[\s,]+/)
  const values = isRecord(value) ? Object.values(value) : value
  return Array.isArray(values) ? values.filter((one) => typeof one === 'string') : undefined
}

function isFlag(value: unknown): value is string {
  return typeof value === 'string' && /^(?:true|false)$/i.test(value)
}

/** Members that are true or false. */
function withFlags(document: Record<string, unknown>): Record<string, unknown> {
  const members = Object.entries(document).map(([name, value]) => [
    name,
    isFlag(value) ? value.toLowerCase() === 'true' : value,
  ])
  return Object.fromEntries(members)
}

/** Members that hold an address which no sign-in needs. */
const ADDRESS = /_(?:uri|documentation)$|^(?:revocation|introspection|userinfo)_endpoint$/

/** Leaves out addresses that are none. */
function withUrls(document: Record<string, unknown>): Record<string, unknown> {
  const members = Object.entries(document)
  return Object.fromEntries(
    members.filter(([name, value]) => !ADDRESS.test(name) || URL.canParse(String(value))),
  )
}

/** Members of a response that hold a number of seconds, or a time in seconds. Without one, a server is asked again when it refuses. */
const SECONDS = /^(?:expires_in|client_secret_expires_at|client_id_issued_at)$/

/** Members of a response that hold a text. */
const TEXT =
  /^(?:scope|refresh_token|id_token|client_(?:id|secret|name)|software_(?:id|version)|token_endpoint_auth_method)$/

/** Turns a list of scopes and numbers into texts, and drops texts and times that are none. */
function withTexts(document: Record<string, unknown>): Record<string, unknown> {
  const members = Object.entries(document).map(([name, value]): [string, unknown] => {
    if (TEXT.test(name)) return [name, textFrom(value)]
    if (!SECONDS.test(name)) return [name, value]
    return [name, Number.isFinite(Number(value)) ? Number(value) : undefined]
  })
  return Object.fromEntries(members)
}

function textFrom(value: unknown): string | undefined {
  if (Array.isArray(value)) return value.join(' ') || undefined
  return typeof value === 'string' || typeof value === 'number' ? String(value) : undefined
}

/** Returns the error code of a response (RFC 6749, section 5.2), safe to show. */
function errorCode(body: unknown): string | undefined {
  return isRecord(body) ? printable(body['error']) : undefined
}

/** Returns text of a server, safe to show. */
export function printable(text: unknown): string | undefined {
  return typeof text === 'string' ? text.replaceAll(/[^\x21-\x7E]/g, '?').slice(0, 64) : undefined
}

/** Turns errors of the library into errors without secrets. Others are of the provider, or say what is wrong. */
export function toAuthError(cause: unknown, library: OAuthLibrary): unknown {
  const { AuthorizationServerMismatchError, IssuerMismatchError, RegistrationRejectedError } =
    library
  if (cause instanceof IssuerMismatchError) {
    const { expected, received, kind } = cause
    const where = kind === 'metadata' ? 'The metadata' : 'The callback'
    const rule = kind === 'metadata' ? 'RFC 8414, section 3.3' : 'RFC 9207'
    const what =
      received === undefined ? 'names no issuer' : `names the issuer ${shownIssuer(received)}`
    const advice = kind === 'metadata' ? '' : '. Pass the whole callback'
    const message = `${where} of the authorization server ${what}, and ${shownIssuer(expected)} was expected (${rule})${advice}`
    return new AuthError('ISSUER_MISMATCH', message, { cause })
  }
  if (cause instanceof AuthorizationServerMismatchError) {
    return issuerMismatch(cause.recordedIssuer, [cause.currentIssuer], cause)
  }
  if (cause instanceof RegistrationRejectedError) {
    const oauthError = errorCode(parseJson(cause.body))
    const why = oauthError === undefined ? '' : `, ${oauthError}`
    const message = `The authorization server did not register this client (HTTP ${cause.status}${why}). Register it there by hand, and pass its client id`
    return new AuthError('NOT_REGISTERED', message, { oauthError })
  }
  if (!(cause instanceof Error)) return cause
  for (const [text, code, messageOf] of LIBRARY_ERRORS) {
    const found = text.exec(cause.message)
    if (found !== null) return new AuthError(code, messageOf(found), { cause })
  }
  if (!['ZodError', 'SyntaxError'].includes(cause.name)) return cause
  // Without the cause: a `SyntaxError` quotes the response, which may hold a secret.
  const fields = fieldsOf(cause)
  const which = fields === '' ? '' : `: see ${fields}`
  const message = `The authorization server sent a malformed response${which}`
  return new AuthError('INVALID_RESPONSE', message)
}

/** Errors of the library without a class of their own, by their texts, and what to do about them. */
const LIBRARY_ERRORS: readonly (readonly [
  text: RegExp,
  code: AuthErrorCode,
  messageOf: (found: RegExpExecArray) => string,
])[] = [
  [
    /not support dynamic client registration/,
    'NOT_REGISTERED',
    () =>
      'The authorization server registers no clients. Register this one there by hand, and pass its client id',
  ],
  [
    /information must be saveable/,
    'NOT_REGISTERED',
    () =>
      'The provider has no client, and no saveClientInformation() to keep one that is registered now. Pass the id of a client, or add the method',
  ],
  [
    /client information is required when exchanging/,
    'NOT_REGISTERED',
    () =>
      'The provider has lost the client that the sign-in began with. Keep it in a store that outlives the process, and start the authorization again',
  ],
  [
    /requires a client_secret/,
    'NOT_REGISTERED',
    () =>
      'The client is registered with a secret (client_secret_basic), and has none here. Pass its secret',
  ],
  [
    /does not support code challenge method/,
    'INVALID_RESPONSE',
    () =>
      'The authorization server does not offer PKCE with S256 (code_challenge_methods_supported), which MCP requires. Report it to the operator of the authorization server',
  ],
  [
    /does not support response type/,
    'INVALID_RESPONSE',
    () =>
      'The authorization server does not offer authorization codes (response_types_supported). Report it to its operator, or use a grant without a browser',
  ],
  [
    /^Protected resource (\S+) does not match expected (\S+)/,
    'INVALID_RESPONSE',
    ([, named, used]) =>
      `The metadata of the MCP server are for the resource ${shownIssuer(named)}, and the client uses ${shownIssuer(used)} (RFC 9728, section 3.3). Use the URL that they name, or report it to the operator of the MCP server`,
  ],
]

/** Creates the error for credentials of one authorization server that another one would get. */
export function issuerMismatch(own: string, named: readonly string[], cause?: unknown): AuthError {
  const others = named.slice(0, 3).map(shownIssuer).join(', ')
  const message = `The client belongs to the authorization server ${shownIssuer(own)}, and the MCP server uses ${others}. Pass the issuer of the client, or a client of that issuer`
  return new AuthError('ISSUER_MISMATCH', message, { ...(cause !== undefined && { cause }) })
}

/** An issuer has no query and no user (RFC 8414, section 2). Its spelling is kept: a slash may be the difference. */
function shownIssuer(issuer = ''): string {
  const [text = ''] = issuer.replace(/\/\/[^/?#]*@/, '//').split(/[?#]/, 1)
  return JSON.stringify(text.slice(0, 256))
}

/** Names of the fields that a `ZodError` is about. They come from the schemas, not from the response. */
function fieldsOf(error: Error): string {
  const issues: unknown = 'issues' in error ? error.issues : undefined
  const paths = (Array.isArray(issues) ? issues : []).flatMap((issue) =>
    isRecord(issue) && Array.isArray(issue['path']) ? [issue['path'].join('.')] : [],
  )
  return [...new Set(paths)].filter((path) => path !== '').join(', ')
}
