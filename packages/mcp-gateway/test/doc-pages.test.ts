import { readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'

import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'

import { readConfig } from '../src/cli/config-file.ts'
import { toOptions } from '../src/cli/file-settings.ts'
import { jwtAuth } from '../src/http/auth/jwt.ts'

const PAGES = [
  'docs/start/offer-an-agent.md',
  'docs/connect/README.md',
  'docs/gateway/agents.md',
  'docs/gateway/deploy.md',
  'docs/gateway/sessions.md',
  'docs/gateway/sign-in.md',
  'packages/mcp-gateway/README.md',
  'packages/mcp-gateway-a2a/README.md',
  'packages/mcp-gateway-oauth/README.md',
  'packages/mcp-gateway-redis/README.md',
]

async function blocks(page: string, language: string): Promise<readonly string[]> {
  const text = await readFile(new URL(`../../../${page}`, import.meta.url), 'utf8')
  const found = text.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\``, 'gm'))
  return Array.from(found, ([, block = '']) => block)
}

/** Values for all variables that a block names. */
function variablesOf(block: string): Record<string, string> {
  const names = Array.from(block.matchAll(/\$\{(\w+)\}/g), ([, name = '']) => name)
  return Object.fromEntries(names.map((name) => [name, valueOf(name)]))
}

function valueOf(name: string): string {
  if (name.endsWith('_HASH')) return 'ab'.repeat(32)
  return name.endsWith('_URL') ? 'redis://redis.example' : '4b1c0f6e-6d0c-4a53-9d3e-7a3f0f7a9b10'
}

describe.each(PAGES)('%s', (page) => {
  test('has JSON that can be parsed, and settings that the gateway accepts', async () => {
    for (const block of await blocks(page, 'json')) expect(() => JSON.parse(block)).not.toThrow()
    for (const block of await blocks(page, 'yaml')) {
      if ('mcpServers' in parse(block)) continue // a file of a client
      const { config, sections } = await readConfig(block, { env: variablesOf(block) })
      const store = { dir: undefined } // another one would connect
      await using made = await toOptions(
        { ...config, store, sources: [] },
        { folder: tmpdir(), onWarning: () => undefined, sections },
      )
      expect(made.options.auth === undefined).toBe(config.auth === undefined)
    }
  })
})

test('each identity provider of the page has settings that accept its tokens', async () => {
  const { publicKey, privateKey } = await generateKeyPair('RS256')
  const keys = { keys: [{ ...(await exportJWK(publicKey)), kid: 'one', alg: 'RS256' }] }
  const keysUrl = 'https://idp.example/keys'
  const accepted: unknown[] = []
  for (const block of await blocks('docs/gateway/sign-in.md', 'yaml')) {
    const { auth } = (await readConfig(block, { env: variablesOf(block) })).config
    const [issuer] = auth?.issuers ?? []
    if (!auth || issuer === undefined || issuer.jwksUrl !== undefined) continue
    const { issuer: iss, audience } = issuer
    const authenticator = jwtAuth({
      issuers: [issuer],
      principalClaim: auth.principalClaim,
      fetch: async (url) => {
        const isKeys = url === keysUrl || (url instanceof URL && url.href === keysUrl)
        return Response.json(isKeys ? keys : { issuer: iss, jwks_uri: keysUrl })
      },
    })
    const token = await new SignJWT({ [auth.principalClaim]: 'ada', scp: ['agents.call'], iss })
      .setProtectedHeader({ alg: 'RS256', kid: 'one' })
      .setAudience([audience].flat()[0] ?? '')
      .setExpirationTime('1h')
      .sign(privateKey)
    const headers = new Headers({ authorization: `Bearer ${token}` })
    const url = 'https://agents.example/mcp'
    accepted.push(await authenticator.authenticate({ url, method: 'POST', headers }))
  }
  expect(accepted).toHaveLength(5)
  for (const each of accepted) expect(each).toMatchObject({ scopes: ['agents.call'] })
})
