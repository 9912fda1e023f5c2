import { setting, type AuthSection } from '@x/mcp-gateway/adapter'
import { z } from 'zod'
import { oauthFacade, type OAuthFacadeOptions } from './oauth-facade.ts'
import { solaceIdentity, type SolaceIdentityOptions } from './solace-identity.ts'

interface FacadeSettings extends Pick<OAuthFacadeOptions, 'redirectUris'> {
  /** The service that signs people in: that of Solace Agent Mesh. */
  readonly identity: SolaceIdentityOptions
}

const schema = z.strictObject({
  identity: setting.section({ url: setting.url, provider: setting.text }),
  redirectUris: setting.texts.default([]),
})

/** `auth.facade` in the configuration file of `mcp-gateway`. */
export const fileSection: AuthSection = {
  schema,
  create: (settings, { store, resource, principalClaim, scopesSupported, onWarning }) => {
    const { identity, redirectUris }: FacadeSettings = schema.parse(settings)
    const { url, provider } = identity
    return oauthFacade({
      store,
      resource,
      identity: solaceIdentity({ url, provider }),
      redirectUris,
      principalClaim,
      scopesSupported,
      onError: (error) => onWarning('A sign-in failed', error),
    })
  },
}
