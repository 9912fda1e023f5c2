import { setTimeout as sleep } from 'node:timers/promises'
import { untilAborted } from '@x/internal'
import { TransportError } from '../transport-error.ts'
import { AuthError } from './auth-provider.ts'
import type {
  DeviceAuthorization,
  OAuthClientInformation,
  OAuthClientProvider,
  OAuthDiscoveryState,
  UserCode,
} from './auth-provider.ts'
import type { OAuthLibrary } from './oauth-flow.ts'
import { deviceResponse } from './oauth-responses.ts'

export const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code'

/** Interval of a server that names none, and what each `slow_down` adds (RFC 8628, sections 3.2 and 3.5). */
const STEP_MS = 5000
const MIN_INTERVAL_MS = 1000
/** Limit for doubling the interval after failures. */
const MAX_BACKOFF_MS = 60_000
/** With the shortest interval, the limit of token requests for one code is 3,600. */
const MAX_LIFETIME_MS = 3_600_000

/** Time, for tests. */
export interface Clock {
  now(): number
  /** Rejects when `signal` aborts. */
  sleep(ms: number, signal: AbortSignal): Promise<void>
}

const SYSTEM_CLOCK: Clock = {
  now: () => Date.now(),
  sleep: (ms, signal) => sleep(ms, undefined, { signal }),
}

interface DeviceFlowOptions {
  readonly provider: OAuthClientProvider
  readonly serverUrl: URL
  readonly library: Pick<OAuthLibrary, 'selectClientAuthMethod'>
  readonly signal: AbortSignal
  /** Called when the user is asked to enter a code. */
  readonly onAsked?: (() => void) | undefined
  readonly clock?: Clock | undefined
  readonly fetch: (url: URL, init: RequestInit) => Promise<Response>
  /** @throws AuthError `INSECURE_URL` */
  readonly secureUrl: (url: string) => URL
}

/** Parameters of a device authorization request. */
interface DeviceRequest {
  readonly found: OAuthDiscoveryState
  readonly client: OAuthClientInformation
  readonly scope: string | undefined
  readonly resource: string | undefined
}

/** One device authorization (RFC 8628): gets a code, shows it to the user, and decides when tokens are requested. */
export class DeviceFlow {
  readonly #options: DeviceFlowOptions
  readonly #clock: Clock
  /** Set with the first token request. */
  #current: (DeviceRequest & { readonly device: DeviceAuthorization }) | undefined
  #isShown = false
  #isStoredUsedUp = false

  constructor(options: DeviceFlowOptions) {
    this.#options = options
    this.#clock = options.clock ?? SYSTEM_CLOCK
  }

  /**
   * Returns the parameters of the next token request, when it is time for that. The user may have entered a stored code
   * already, so it is shown only if that request does not give tokens.
   *
   * @throws AuthError, an error of the provider, or the reason of the signal
   */
  async tokenRequest(request: DeviceRequest): Promise<URLSearchParams> {
    let device = this.#current?.device
    if (!this.#isStoredUsedUp) device ??= await this.#storedCode(request)
    if (device === undefined) {
      device = await this.#requestCode(request)
      await this.#store(request, device)
      await this.#show(device)
    }
    this.#current = { ...request, device }
    const waitMs = Math.min(device.nextAt - this.#clock.now(), MAX_LIFETIME_MS)
    if (waitMs > 0) await this.#clock.sleep(waitMs, this.#options.signal)
    return new URLSearchParams({ grant_type: DEVICE_GRANT, device_code: device.deviceCode })
  }

  /**
   * Returns if tokens may be requested again after this failure.
   *
   * @throws the failure, or an AuthError that says what it means. The code is forgotten if it cannot be used any more
   */
  async failed(error: unknown): Promise<void> {
    const { signal } = this.#options
    if (signal.aborted)
      throw new TransportError('CLOSED', 'Nothing waits for the sign-in any more', { cause: error })
    if (this.#current === undefined) throw error // before the user could enter a code
    let device: DeviceAuthorization
    try {
      device = afterFailure(this.#current.device, error, this.#clock.now())
    } catch (final) {
      await this.end()
      const { code, oauthError }: Partial<AuthError> = AuthError.is(final) ? final : {}
      const isUsedUp = code === 'TIMEOUT' || oauthError === 'invalid_grant'
      if (this.#isShown || !isUsedUp) throw final
      this.#current = undefined // the user gets another code for the stored one
      this.#isStoredUsedUp = true // a store may keep it nevertheless
      return
    }
    this.#current = { ...this.#current, device }
    await this.#store(this.#current, device)
    if (!this.#isShown) await this.#show(device)
  }

  /** Forgets the code. */
  async end(): Promise<void> {
    if (this.#current !== undefined) await this.#store(this.#current, undefined)
  }

  /** Returns the code of an earlier request, if it is for the same client, server and scope, and can still be used. */
  async #storedCode({
    found,
    client,
    scope,
  }: DeviceRequest): Promise<DeviceAuthorization | undefined> {
    const { provider, serverUrl } = this.#options
    const stored = await provider.discoveryState?.()
    const device = stored?.device
    const isSame =
      stored?.authorizationServerMetadata?.issuer === found.authorizationServerMetadata?.issuer &&
      stored?.scope === scope &&
      device?.clientId === client.client_id &&
      device.server === serverUrl.origin
    const startsAt = Math.max(this.#clock.now(), device?.nextAt ?? Infinity)
    return isSame && startsAt < device.expiresAt ? device : undefined
  }

  async #store(
    { found, scope }: DeviceRequest,
    device: DeviceAuthorization | undefined,
  ): Promise<void> {
    // `chooseServer()` knows by a `state` that an authorization has saved this, and not the user.
    await this.#options.provider.saveDiscoveryState?.({ ...found, state: 'device', scope, device })
  }

  async #show({ userCode, url, completeUrl, expiresAt }: DeviceAuthorization): Promise<void> {
    const { provider, signal, onAsked } = this.#options
    onAsked?.()
    const code: UserCode = { userCode, url, ...(completeUrl && { completeUrl }), expiresAt }
    await untilAborted(Promise.resolve(provider.showUserCode?.(code, { signal })), signal)
    this.#isShown = true
  }

  async #requestCode(request: DeviceRequest): Promise<DeviceAuthorization> {
    const { fetch, secureUrl, serverUrl } = this.#options
    const url = new URL(deviceEndpoint(request.found))
    const response = await fetch(url, await this.#postOfClient(url, request))
    const body = await deviceResponse(response, url)
    const now = this.#clock.now()
    const {
      device_code: deviceCode,
      user_code: userCode,
      verification_uri_complete: complete,
    } = body
    const page = body['verification_uri'] ?? body['verification_url'] // Google and Entra ID v1
    const lifetimeMs = Math.min(Number(body['expires_in']) * 1000, MAX_LIFETIME_MS)
    const intervalMs = Math.max(Number(body['interval'] ?? NaN) * 1000 || STEP_MS, MIN_INTERVAL_MS)
    if (typeof deviceCode !== 'string') throw unusable('device_code')
    if (typeof userCode !== 'string' || !USER_CODE.test(userCode)) throw unusable('user_code')
    if (typeof page !== 'string' || !URL.canParse(page)) throw unusable('verification_uri')
    if (!(lifetimeMs > 0)) throw unusable('expires_in')
    const hasComplete = typeof complete === 'string' && URL.canParse(complete)
    return {
      deviceCode,
      userCode,
      url: secureUrl(page).href,
      ...(hasComplete && { completeUrl: secureUrl(complete).href }),
      clientId: request.client.client_id,
      server: serverUrl.origin,
      expiresAt: now + lifetimeMs,
      intervalMs,
      nextAt: now + intervalMs,
    }
  }

  /** The client authenticates as at the token endpoint (RFC 8628, section 3.1). */
  async #postOfClient(
    url: URL,
    { found, client, scope, resource }: DeviceRequest,
  ): Promise<RequestInit> {
    const { provider, library } = this.#options
    const { authorizationServerMetadata: metadata } = found
    const { client_id: id, client_secret: secret = '' } = client
    const headers = new Headers({
      accept: 'application/json', // GitHub sends a form otherwise
      'content-type': 'application/x-www-form-urlencoded',
    })
    const body = new URLSearchParams({ client_id: id })
    if (scope) body.set('scope', scope)
    if (resource) body.set('resource', resource)
    if (provider.addClientAuthentication === undefined) {
      const supported = metadata?.['token_endpoint_auth_methods_supported']
      const methods = Array.isArray(supported) ? supported : []
      const method = library.selectClientAuthMethod(client, methods)
      if (method === 'client_secret_basic') {
        headers.set('authorization', `Basic ${btoa(`${id}:${secret}`)}`)
      } else if (method === 'client_secret_post') body.set('client_secret', secret)
    } else await provider.addClientAuthentication(headers, body, url, metadata)
    return { method: 'POST', headers, body }
  }
}

/** No control characters: the code is shown in terminals. */
const USER_CODE = /^[\x20-\x7E]{1,64}$/

/** @throws AuthError `DEVICE_UNSUPPORTED` */
export function deviceEndpoint({
  authorizationServerMetadata: metadata,
}: OAuthDiscoveryState): string {
  const endpoint = metadata?.['device_authorization_endpoint']
  if (typeof endpoint === 'string' && URL.canParse(endpoint)) return endpoint
  const message =
    'The authorization server names no device_authorization_endpoint (RFC 8628), so it gives no code to enter on another device. Use loopbackOAuth() or createAuthProvider()'
  throw new AuthError('DEVICE_UNSUPPORTED', message)
}

/** The user refused (RFC 8628, section 3.5). Microsoft Entra ID has a code of its own. */
const REFUSED_ACCESS: ReadonlySet<string> = new Set(['access_denied', 'authorization_declined'])

/**
 * Returns when tokens are requested again after a failure (RFC 8628, section 3.5).
 *
 * @throws AuthError `DENIED`, `TIMEOUT` for an expired code, or the failure if it is final
 */
export function afterFailure(
  device: DeviceAuthorization,
  error: unknown,
  now: number,
): DeviceAuthorization {
  const refusal = AuthError.is(error) ? error.oauthError : undefined
  let { intervalMs } = device
  if (refusal === 'slow_down') intervalMs += STEP_MS
  else if (isTemporary(error, refusal)) {
    intervalMs = Math.max(intervalMs, Math.min(intervalMs * 2, MAX_BACKOFF_MS))
  } else if (refusal !== undefined && REFUSED_ACCESS.has(refusal)) {
    throw new AuthError('DENIED', 'The user refused access', { cause: error, oauthError: refusal })
  } else if (refusal !== 'authorization_pending' && refusal !== 'expired_token') throw error
  const nextAt = now + intervalMs
  if (refusal !== 'expired_token' && nextAt < device.expiresAt)
    return { ...device, intervalMs, nextAt }
  const message = 'The user did not enter the code before it expired: start the authorization again'
  throw new AuthError('TIMEOUT', message, { cause: error })
}

function isTemporary(error: unknown, refusal: string | undefined): boolean {
  if (refusal !== undefined)
    return refusal === 'temporarily_unavailable' || refusal === 'server_error'
  return (
    TransportError.is(error) && ['UNREACHABLE', 'TIMEOUT', 'OUTCOME_UNKNOWN'].includes(error.code)
  )
}

function unusable(field: string): AuthError {
  const message = `The authorization server sent a device authorization without a usable ${field} (RFC 8628, section 3.2)`
  return new AuthError('INVALID_RESPONSE', message)
}
