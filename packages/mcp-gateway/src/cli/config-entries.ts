import { z } from 'zod'

import type { JwtIssuerOptions } from '../http/auth/jwt-issuer.ts'
import type { StaticToken } from '../http/auth/static-tokens.ts'
import type { ClientProfile } from '../files/inline-limits.ts'
import { bytes, flag, ms, text, texts, url, whole } from '../gateway/config-values.ts'
import type { SourceConfig, ToolOverrideConfig } from './gateway-config.ts'

const card = z.strictObject({
  url,
  headers: z.record(text, text, { error: 'headers by name' }).optional(),
  signatureKeys: z
    .array(z.looseObject({ kty: text, kid: text }), { error: 'a list of public keys (JWK)' })
    .optional(),
})

/** Where agents come from. */
export const source: z.ZodType<SourceConfig> = z.discriminatedUnion(
  'type',
  [
    z.strictObject({ type: z.literal('langgraph'), config: text }),
    z.strictObject({
      type: z.literal('langgraph-server'),
      url,
      apiKey: text.optional(),
      headers: z.record(text, text, { error: 'headers by name' }).optional(),
      assistants: texts.optional(),
      refreshMs: ms(1).optional(),
      timeoutMs: ms(1).optional(),
    }),
    z.strictObject({
      type: z.literal('a2a'),
      cards: z.array(z.union([url, card], { error: 'the URL of a card, or { url, headers }' }), {
        error: 'a list of cards',
      }),
      trustedOrigins: z.array(url, { error: 'a list of URLs' }).optional(),
      refreshMs: ms(1).optional(),
      timeoutMs: ms(1).optional(),
      silenceMs: ms(1).optional(),
      pollMs: ms(1).optional(),
      maxBytes: bytes.optional(),
    }),
  ],
  { error: 'a source with type: langgraph, langgraph-server or a2a' },
)

/** What one tool has that is not its agent's. */
export const override: z.ZodType<ToolOverrideConfig> = z.strictObject({
  name: text.optional(),
  title: text.optional(),
  description: text.optional(),
  timeoutMs: ms(1).optional(),
  idleTimeoutMs: ms().optional(),
  scopes: texts.optional(),
  cache: z.strictObject({ ttlMs: ms(1), anonymous: flag.optional() }).optional(),
  hidden: flag.optional(),
  annotations: z
    .strictObject({
      readOnlyHint: flag.optional(),
      destructiveHint: flag.optional(),
      idempotentHint: flag.optional(),
      openWorldHint: flag.optional(),
    })
    .optional(),
})

/** One of `auth.tokens`, by the name of its caller. */
export const token: z.ZodType<StaticToken> = z.strictObject({
  sha256: z
    .string({ error: '64 hex digits, as `mcp-gateway token` prints them' })
    .regex(/^[0-9a-f]{64}$/i, { error: '64 hex digits, as `mcp-gateway token` prints them' })
    .optional(),
  token: text.optional(),
  scopes: texts.optional(),
  expiresAt: text.optional(),
})

/** Whose JWTs are taken. */
export const issuer: z.ZodType<JwtIssuerOptions> = z.strictObject({
  issuer: url,
  jwksUrl: url.optional(),
  audience: z.union([text, texts.min(1)], { error: 'an audience, or a list of them' }),
  algorithms: texts.optional(),
  clockToleranceSec: whole(0, 3600).optional(),
})

/** Limits for clients whose name matches. */
export const profile: z.ZodType<ClientProfile> = z.strictObject({
  match: text,
  totalMaxBytes: whole(0).optional(),
  resultMaxBytes: whole(16_384).optional(),
  textMaxChars: whole(0).optional(),
})
