/** The part of `oidc-provider` that tests use. The package has no declarations. */
declare module 'oidc-provider' {
  import type { RequestListener } from 'node:http'

  export class Provider {
    constructor(issuer: string, configuration: Readonly<Record<string, unknown>>)
    callback(): RequestListener
    registerGrantType(
      name: string,
      handler: (context: GrantTypeContext) => Promise<void>,
      parameters: readonly string[],
    ): void
    readonly AccessToken: new (of: {
      client: object
      accountId: string
      scope: string
    }) => AccessToken
    readonly Client: { find(id: string): Promise<object | undefined> }
    readonly ResourceServer: new (identifier: string, data: object) => object
  }

  interface AccessToken {
    resourceServer: object
    readonly expiration: number
    save(): Promise<string>
  }

  /** Context of a grant. */
  export interface GrantTypeContext {
    readonly oidc: {
      readonly client: object
      readonly params: Readonly<Record<string, string | undefined>>
    }
    body: unknown
  }

  export const errors: Readonly<
    Record<'InvalidGrant' | 'InvalidTarget', new (description: string) => Error>
  >
}
