import { bearerAuth } from '@x/mcp-gateway'
import { expectContains, expectThat } from './check.ts'
import type { Check } from './check.ts'
import { KINDS, SDK_VERSIONS } from './clients.ts'
import type { ClientKind } from './clients.ts'
import { serveInterop, STDIO_COMMAND } from './gateway-server.ts'
import { startLangGraphServer } from './langgraph/server.ts'
import { signsIn } from './sign-in.ts'
import { withClient, USES, usesOf } from './uses.ts'
import type { Use } from './uses.ts'

const TOKEN = 'a-token-of-some-length'
const HEADERS = { authorization: `Bearer ${TOKEN}` }
/** Enough for all uses, and for one or two starts of the program. */
const STDIO_MS = 30_000

/** The gateway with each client, over HTTP and stdio. */
export const gatewayClients: readonly Check[] = KINDS.flatMap((kind) => {
  const group = `${kind.name} at the gateway`
  const uses = usesOf(kind, USES)
  return [
    ...uses.map((use) => ({ group, name: use.name, run: () => overHttp(kind, use) })),
    { group, name: 'does the same over stdio', ms: STDIO_MS, run: () => overStdio(kind, uses) },
  ]
})

async function overHttp(kind: ClientKind, { needs, run }: Use): Promise<void> {
  await using gateway = await serveInterop()
  await withClient({ kind, target: { url: gateway.url }, hasAnswers: needs !== 'silence' }, run)
}

/** One program for all uses, because its start takes longer than they do. */
async function overStdio(kind: ClientKind, uses: readonly Use[]): Promise<void> {
  await withClient({ kind, target: STDIO_COMMAND, hasAnswers: true }, async (client, seen) => {
    for (const { name, needs, run } of uses) {
      if (needs === 'silence') continue
      await run(client, seen).catch((cause: unknown) => {
        throw new Error(`${name}: ${cause instanceof Error ? cause.message : String(cause)}`, {
          cause,
        })
      })
    }
  })
}

/** Authentication, and forgotten sessions. */
export const gatewayAccess: readonly Check[] = [
  ...KINDS.map((kind) => ({
    group: 'Access to the gateway with and without a token',
    name: kind.name,
    run: () => bringsToken(kind),
  })),
  ...SDK_VERSIONS.map((version) => ({
    group: 'Sign-in at the gateway with its URL alone',
    name: `SDK ${version}`,
    run: () => signsIn(version),
  })),
  ...KINDS.map((kind) => ({
    group: 'A gateway that has forgotten its sessions',
    name: kind.name,
    run: () => meetsForgottenSession(kind),
  })),
]

/** A client with the token is served. The user of a client without one gets a 401. */
async function bringsToken(kind: ClientKind): Promise<void> {
  await using gateway = await serveInterop({ auth: bearerAuth(TOKEN) })
  const { url } = gateway
  await using client = await kind.connect({ url, headers: HEADERS })
  expectContains(await client.call('support_ask', 'May I?'), 'You said: May I?')
  const refusal = await callWithoutToken(kind, url)
  expectThat(
    /401|unauthorized|invalid_token|credential/i.test(refusal),
    `expected a 401, got ${refusal}`,
  )
}

async function callWithoutToken(kind: ClientKind, url: string): Promise<string> {
  try {
    await using client = await kind.connect({ url })
    return await client.call('support_ask', 'May I?')
  } catch (error) {
    return String(error)
  }
}

/** Most clients throw an error when the gateway has forgotten the session. */
async function meetsForgottenSession(kind: ClientKind): Promise<void> {
  await using gateway = await serveInterop()
  await using client = await kind.connect({ url: gateway.url })
  expectContains(await client.call('support_ask', 'First?'), 'You said: First?')
  await gateway.replace()
  if (kind.era === 'modern' || kind.can.includes('heals')) {
    expectContains(await client.call('support_ask', 'Second?'), 'You said: Second?')
    return
  }
  const error = await client.call('support_ask', 'Second?').catch(String)
  expectThat(/session not found/i.test(error), `expected "Session not found", got ${error}`)
  await using another = await kind.connect({ url: gateway.url })
  expectContains(await another.call('support_ask', 'Third?'), 'You said: Third?')
}

/** The gateway as `http.app` of a `langgraph.json`, in LangGraph's own server, which replaces globals of Node. */
export const gatewayInLangGraphServer: readonly Check[] = [
  {
    group: 'The gateway as http.app of a langgraph.json',
    name: 'serves every client with a token, and keeps the other routes',
    ms: 30_000,
    run: async () => {
      await using server = await startLangGraphServer(TOKEN)
      await refusesWithoutToken(`${server.url}/mcp`)
      for (const kind of KINDS) await serves(kind, `${server.url}/mcp`)
      const { status } = await fetch(`${server.url}/ok`)
      expectThat(status === 200, `expected the server's own routes, got ${status} of /ok`)
    },
  },
]

async function serves(kind: ClientKind, url: string): Promise<void> {
  await using client = await kind.connect({ url, headers: HEADERS })
  const names = await client.listTools()
  expectThat(names.join() === 'support', `${kind.name}: expected support, got ${names.join(', ')}`)
  expectContains(await client.call('support', 'Where is it?'), 'You said: Where is it?')
}

async function refusesWithoutToken(url: string): Promise<void> {
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
  }
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' })
  for (const authorization of [undefined, 'Bearer wrong']) {
    const response = await fetch(url, {
      method: 'POST',
      headers: { ...headers, ...(authorization && { authorization }) },
      body,
    })
    await response.text()
    const challenge = response.headers.get('www-authenticate')
    expectThat(response.status === 401, `expected 401, got ${response.status}`)
    expectThat(challenge?.startsWith('Bearer') === true, `expected a challenge, got ${challenge}`)
  }
}
