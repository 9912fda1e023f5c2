import {
  calculatePKCECodeChallenge,
  generateRandomCodeVerifier,
  generateRandomState,
} from 'oauth4webapi'
import { AuthError } from '../auth-error.ts'
import {
  authorizationServerFrom,
  discoverAuthorizationServer,
} from '../discovery/authorization-server.ts'
import type { AuthorizationServer } from '../discovery/authorization-server.ts'
import { authorizationUrl } from './authorization-url.ts'
import { callbackIssuerVerdict } from './callback-issuer.ts'
import { callbackFrom, returnedCallback } from './callback.ts'
import type { CallbackAnswer } from './callback.ts'
import { knownClient, registeredClient } from '../client/client-identity.ts'
import type { PendingAuthorization } from '../stores/credential-memory.ts'
import { authorizationServerOf, save } from '../flow.ts'
import type { Flow, FlowOptions } from '../flow.ts'
import { resourceMetadataFrom, serverMetadataFrom } from '../discovery/metadata.ts'
import type { AuthorizationCallback } from '../oauth-client-provider.ts'
import { discoverResource, resourceOf, speaksFor } from '../discovery/resource-discovery.ts'
import type { DiscoveredResource } from '../discovery/resource-discovery.ts'
import { exchangeCode } from '../token-request.ts'

/** Sends the user to the authorization server, and goes on if the provider waits for the answer. */
export async function askUser(flow: Flow): Promise<void> {
  const { provider, memory, serverUrl, resource, server, scope, signal } = flow
  const { issuer, metadata, authorizationEndpoint } = server
  const methods = metadata?.code_challenge_methods_supported
  if (metadata !== undefined && methods?.includes('S256') !== true) {
    const message = `${issuer} does not say that it checks PKCE with S256: it must not be used`
    throw new AuthError('PKCE_UNSUPPORTED', message)
  }
  if (authorizationEndpoint === undefined) {
    throw new AuthError('INVALID_RESPONSE', `${issuer} names no authorization endpoint`)
  }
  await provider.prepareRedirect?.({ signal })
  const client = await registeredClient(flow)
  const redirectUri = String(provider.redirectUrl)
  const codeVerifier = generateRandomCodeVerifier()
  const state = (await provider.state?.()) ?? generateRandomState()
  const pending: PendingAuthorization = {
    serverUrl: serverUrl.href,
    server,
    client,
    resource: resource.resource,
    redirectUri,
    state,
    scope,
  }
  memory.pending = pending
  await provider.saveCodeVerifier(codeVerifier)
  await provider.saveDiscoveryState?.({
    authorizationServerUrl: issuer,
    state,
    ...(metadata === undefined ? {} : { authorizationServerMetadata: metadata }),
    ...(resource.metadata === undefined ? {} : { resourceMetadata: resource.metadata }),
    ...(resource.metadataUrl === undefined
      ? {}
      : { resourceMetadataUrl: resource.metadataUrl.href }),
  })
  const url = authorizationUrl({
    endpoint: authorizationEndpoint,
    clientId: client.client_id,
    redirectUri,
    codeChallenge: await calculatePKCECodeChallenge(codeVerifier),
    state,
    resource: resource.resource,
    scope,
  })
  const answer = returnedCallback(await provider.redirectToAuthorization(url, { signal }))
  if (answer !== undefined) return complete(flow, pending, answer)
  const message = `The user was sent to ${issuer}: pass what comes back to finishAuth(), then try again`
  throw new AuthError('AUTHORIZATION_REQUIRED', message)
}

export interface FinishOptions extends FlowOptions {
  readonly callback: AuthorizationCallback
}

/**
 * Goes on with what came back to the redirect URL, maybe in another process than the one that sent the
 * user away.
 *
 * @throws AuthError
 * @throws TypeError for a callback with neither a code nor an error.
 */
export async function finishAuthorization(options: FinishOptions): Promise<void> {
  const answer = callbackFrom(options.callback)
  const { pending } = options.memory
  const isOurs = pending?.serverUrl === options.serverUrl.href
  await complete(options, isOurs ? pending : await recalled(options), answer)
}

/** What another process, or a provider for a transport before this one, recorded before the redirect. */
async function recalled(options: FlowOptions): Promise<PendingAuthorization> {
  const { provider, serverUrl, fetch } = options
  const recorded = await provider.discoveryState?.()
  const metadata = resourceMetadataFrom(recorded?.resourceMetadata)
  const serverMetadata = serverMetadataFrom(recorded?.authorizationServerMetadata)
  const issuer = recorded?.authorizationServerUrl
  let resource: DiscoveredResource = { resource: resourceOf(serverUrl) }
  let server: AuthorizationServer
  if (issuer === undefined) {
    resource = await discoverResource({ serverUrl, fromChallenge: undefined, provider, fetch })
    server = await authorizationServerOf(resource, options)
  } else {
    if (metadata !== undefined && speaksFor(metadata.resource, serverUrl)) {
      resource = { resource: metadata.resource, metadata }
    }
    server =
      serverMetadata?.issuer === issuer
        ? authorizationServerFrom(serverMetadata, serverUrl)
        : await discoverAuthorizationServer({ issuer, serverUrl, fetch })
  }
  const client = await knownClient({ ...options, server })
  if (client === undefined) {
    const message = `${server.issuer} does not know this client: start the authorization again`
    throw new AuthError('NOT_REGISTERED', message)
  }
  return {
    serverUrl: serverUrl.href,
    server,
    client,
    resource: resource.resource,
    redirectUri: String(provider.redirectUrl),
    state: recorded?.state,
    scope: undefined,
  }
}

async function complete(
  options: FlowOptions,
  pending: PendingAuthorization,
  answer: CallbackAnswer,
): Promise<void> {
  const { provider, memory } = options
  const { server, client, resource, redirectUri, scope } = pending
  checkOrigin(pending, answer)
  const codeVerifier = await provider.codeVerifier()
  const context = { ...options, server, client, resource }
  const { parameters } = answer
  const tokens = await exchangeCode(context, { parameters, redirectUri, codeVerifier })
  if (memory.pending === pending) memory.pending = undefined
  await save({ ...options, server, client, scope }, tokens)
}

/** Before anything else in the callback is believed, errors included (RFC 9207, section 2.4). */
function checkOrigin(
  { server, state }: PendingAuthorization,
  { parameters, isBareCode }: CallbackAnswer,
): void {
  const { issuer: recorded, metadata } = server
  const isAdvertised = metadata?.authorization_response_iss_parameter_supported === true
  const iss = parameters.get('iss') ?? undefined
  const verdict = callbackIssuerVerdict({ iss, recorded, isAdvertised })
  if (verdict !== 'accept') {
    const what = verdict === 'missing' ? 'does not say that it comes' : 'does not come'
    const hint = isBareCode ? ': pass the whole query of the callback, not only its code' : ''
    throw new AuthError('ISSUER_MISMATCH', `The callback ${what} from ${recorded}${hint}`)
  }
  if (state !== undefined && !isBareCode && parameters.get('state') !== state) {
    throw new AuthError('STATE_MISMATCH', 'The callback answers another authorization request')
  }
}
