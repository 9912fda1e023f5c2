/** The part of `oidc-provider` that tests use. The package has no declarations. */
declare module 'oidc-provider' {
  import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'

  export class Provider {
    constructor(issuer: string, configuration: Readonly<Record<string, unknown>>)
    callback(): RequestListener
    /** Ends the interaction with the user, and sends the browser back. */
    interactionFinished(
      request: IncomingMessage,
      response: ServerResponse,
      result: { readonly login: { readonly accountId: string }; readonly consent: object },
    ): Promise<void>
    readonly AccessToken: {
      find(token: string): Promise<{ readonly aud: string; destroy(): Promise<void> } | undefined>
    }
    readonly Grant: new (of: { clientId: string; accountId: string }) => {
      addOIDCScope(scope: string): void
      addResourceScope(resource: string, scope: string): void
      save(): Promise<string>
    }
  }

  /** Context of `loadExistingGrant`. */
  export interface GrantContext {
    readonly oidc: {
      readonly client: { readonly clientId: string }
      readonly session: { readonly accountId: string }
      readonly provider: Provider
    }
  }
}
