import { setting, type SourceSection } from '@x/mcp-gateway/adapter'
import { z } from 'zod'
import { a2aSource } from './source.ts'

const card = z.strictObject({
  url: setting.url,
  headers: setting.headers.optional(),
  signatureKeys: z
    .array(z.looseObject({ kty: setting.text, kid: setting.text }), {
      error: 'a list of public keys (JWK)',
    })
    .optional(),
})

const schema = z.strictObject({
  cards: z.array(
    z.union([setting.url, card], { error: 'the URL of a card, or { url, headers }' }),
    { error: 'a list of cards' },
  ),
  trustedOrigins: z.array(setting.url, { error: 'a list of URLs' }).optional(),
  maxBytes: setting.bytes.optional(),
})

/** A source with `type: a2a` in the configuration file of `mcp-gateway`. */
export const fileSection: SourceSection = {
  schema,
  create: (settings) => a2aSource(schema.parse(settings)),
}
