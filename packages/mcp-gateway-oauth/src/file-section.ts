import { setting, type AuthSection } from '@x/mcp-gateway/adapter'
import { z } from 'zod'
import { oauthFacade } from './oauth-facade.ts'

const schema = z.strictObject({
  upstreamUrl: setting.url.default('http://localhost:8050'),
  provider: setting.text.default('azure'),
  redirectUris: setting.texts.default([]),
})

/** `auth.facade`, for `auth.mode: facade` in the configuration file of `mcp-gateway`. */
export const fileSection: AuthSection = {
  schema,
  create: (settings, { store, resource, principalClaim, scopesSupported, onWarning }) =>
    oauthFacade({
      ...schema.parse(settings),
      store,
      resource,
      principalClaim,
      scopesSupported,
      onError: (error) => onWarning('A sign-in failed', error),
    }),
}
