import { expect, test } from 'vitest'

import { readConfig } from './config-file.ts'
import { toOptions, type FileOptions } from './file-settings.ts'

async function optionsOf(content: string): Promise<FileOptions> {
  const { config, sections } = await readConfig(content)
  const context = { folder: '', onWarning: () => undefined, sections }
  return toOptions(config, context)
}

test('loads the authorization server of `auth.facade` from its package', async () => {
  await using configured = await optionsOf(`
http: { publicUrl: https://gateway.example }
auth:
  facade: { identity: { url: https://identity.example, provider: azure } }
`)
  const request = new Request('https://gateway.example/.well-known/oauth-authorization-server')
  const metadata = await configured.options.auth?.handle?.(request)
  await expect(metadata?.json()).resolves.toMatchObject({
    token_endpoint: 'https://gateway.example/oauth/token',
  })
})

test('keeps the path of the public URL in the authorization server and the resource', async () => {
  await using configured = await optionsOf(`
http: { publicUrl: https://gateway.example/team, metricsPath: /metrics }
auth:
  facade: { identity: { url: https://identity.example, provider: azure } }
`)
  const { auth } = configured.options
  const ask = async (path: string): Promise<unknown> =>
    (await auth?.handle?.(new Request(`https://gateway.example${path}`)))?.json()
  expect(await ask('/.well-known/oauth-authorization-server/team')).toMatchObject({
    issuer: 'https://gateway.example/team',
    token_endpoint: 'https://gateway.example/team/oauth/token',
  })
  expect(await ask('/.well-known/oauth-protected-resource/team/mcp')).toMatchObject({
    resource: 'https://gateway.example/team/mcp',
  })
})

test('refuses an authorization server at a public URL without encryption', async () => {
  await expect(
    optionsOf(`
http: { publicUrl: http://gateway.example }
auth:
  facade: { identity: { url: https://identity.example, provider: azure } }
`),
  ).rejects.toMatchObject({
    code: 'CONFIG',
    path: 'http.publicUrl',
    message: expect.stringContaining(
      'http.publicUrl must begin with https://, except on this machine',
    ),
  })
})

test('refuses a path of the metrics that is one of the endpoint', async () => {
  const content = 'http: { publicUrl: https://gateway.example/team, metricsPath: /team/mcp }'
  await expect(readConfig(content, { file: 'g.yaml' })).rejects.toThrow('http.path has this one')
})

test('names the place of a wrong card', async () => {
  const content = '# agents\nsources:\n  - type: a2a\n    cards: [5]'
  await expect(readConfig(content, { file: 'g.yaml' })).rejects.toThrow(
    'g.yaml:4: setting "sources[0].cards[0]" must be the URL of a card, or { url, headers }, not a number',
  )
})

test('passes settings of files on to the gateway', async () => {
  await using configured = await optionsOf(`
inline: { fileMaxBytes: 0 }
artifacts: { quota: 3, upload: false }
resultTtlMs: 5000
tools: { parameters: examples }`)
  expect(configured.options).toMatchObject({
    inline: { fileMaxBytes: 0 },
    artifacts: { quota: 3, upload: false },
    resultTtlMs: 5000,
    tools: { parameters: 'examples' },
  })
})

test('makes the credentials of callers, which get tokens of the listed servers only', async () => {
  const file = (tokenUrl: string): string => `
auth:
  issuers: [{ issuer: https://login.example, audience: a }]
credentials:
  tokenUrl: ${tokenUrl}
  clientId: gateway
  clientSecret: secret
  targets: { 'https://orders.example/mcp': { scopes: [read] } }
`
  await using configured = await optionsOf(file('https://login.example/token'))
  const ada = { id: 'ada', scopes: [], isAnonymous: false, claims: {} }
  const credentials = configured.options.credentials?.credentialsFor(ada, 'token-of-ada')
  const other = { server: 'other', resource: 'https://other.example/mcp' }
  await expect(credentials?.token(other)).rejects.toMatchObject({ code: 'WRONG_AUDIENCE' })
  await expect(optionsOf(file('http://login.example/token'))).rejects.toMatchObject({
    code: 'CONFIG',
    path: 'credentials.tokenUrl',
  })
})
