import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { createInterface } from 'node:readline'
import { after, test } from 'node:test'
import { promisify } from 'node:util'
import { startProvider } from './provider.ts'

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  return typeof address === 'object' && address !== null ? address.port : 0
}

const port = await freePort()
const publicUrl = `http://localhost:${port}/agents`
const endpoint = `${publicUrl}/mcp`
const metadataUrl = `http://localhost:${port}/.well-known/oauth-protected-resource/agents/mcp`

const provider = await startProvider(endpoint)
const gateway = spawn(
  process.execPath,
  ['node_modules/@x/mcp-gateway/dist/cli.js', 'serve', 'gateway.yaml'],
  {
    env: { ...process.env, PORT: String(port), PUBLIC_URL: publicUrl, ISSUER: provider.issuer },
    stdio: ['ignore', 'pipe', 'inherit'],
  },
)
const exited = once(gateway, 'exit')
after(async () => {
  gateway.kill('SIGTERM')
  await exited
  await provider.close()
})
await Promise.race([
  once(createInterface({ input: gateway.stdout }), 'line'),
  exited.then(() => assert.fail('The gateway did not start')),
])

/** Asks for the list of tools. */
function listTools(token?: string): Promise<Response> {
  return fetch(endpoint, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/list',
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/list',
      params: {
        _meta: {
          'io.modelcontextprotocol/protocolVersion': '2026-07-28',
          'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1.0.0' },
          'io.modelcontextprotocol/clientCapabilities': {},
        },
      },
    }),
  })
}

test('a program finds Keycloak by itself, signs in, and calls', async () => {
  const env = { ...process.env, MCP_URL: endpoint, CLIENT_SECRET: provider.client.secret }
  const { stdout } = await promisify(execFile)(process.execPath, ['call.ts'], { env })
  assert.match(stdout, /Order 17 is on its way/)
})

test('a token of the provider is accepted', async () => {
  const answer = await listTools(await provider.token(endpoint))
  assert.equal(answer.status, 200)
  assert.match(await answer.text(), /"name":"orders"/)
})

test('the document of the endpoint names the issuer, below the prefix', async () => {
  assert.deepEqual(await (await fetch(metadataUrl)).json(), {
    resource: endpoint,
    authorization_servers: [provider.issuer],
    scopes_supported: ['agent:orders:call'],
    bearer_methods_supported: ['header'],
  })
})

const refused = {
  'without a token': async () => undefined,
  'with a token for another audience': () => provider.token('http://localhost/other/mcp'),
  'with a token without an audience': () => provider.sign({ aud: undefined }),
  'with an expired token': () => provider.sign({ exp: Math.floor(Date.now() / 1000) - 60 }),
  'with a token of another issuer': () => provider.sign({ iss: 'http://localhost/realms/other' }),
}

for (const [how, tokenFor] of Object.entries(refused)) {
  test(`a call ${how} is refused, and told where to sign in`, async () => {
    const token = await tokenFor()
    const answer = await listTools(token)
    assert.equal(answer.status, 401)
    const challenge = answer.headers.get('www-authenticate') ?? ''
    assert.match(challenge, /^Bearer /)
    assert.ok(challenge.includes(`resource_metadata="${metadataUrl}"`), challenge)
    assert.equal(challenge.includes('error="invalid_token"'), token !== undefined, challenge)
  })
}

test('a token without the scope of the agent sees no tool', async () => {
  const answer = await listTools(await provider.sign({ scope: 'email' }))
  assert.equal(answer.status, 200)
  assert.doesNotMatch(await answer.text(), /"name":"orders"/)
})
