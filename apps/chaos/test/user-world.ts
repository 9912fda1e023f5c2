// A user calls through three hops: client → gateway → graph → server. The authorization server is `oidc-provider`.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { interrupt, MemorySaver, START, StateGraph } from '@langchain/langgraph'
import { createMcpTools, userTokens } from '@x/langchain-mcp'
import { McpClient, type McpClientOptions } from '@x/mcp-client'
import { createGateway, jwtAuth, tokenExchange, type GatewayLogger } from '@x/mcp-gateway'
import { startTestServer, type TestServer } from '@x/mcp-testing'
import { createRemoteJWKSet, jwtVerify } from 'jose'
import { errors, Provider } from 'oidc-provider'
import { z } from 'zod'

const EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'

/** An authorization server that gives tokens to users, and exchanges them. */
interface Login extends AsyncDisposable {
  readonly issuer: string
  /** Servers that it knows. */
  readonly targets: Set<string>
  /** All tokens that it gave. */
  readonly tokens: string[]
  /** Runs before each exchange. Returns true if the server is to fail. */
  fails: () => boolean
  /** Life of exchanged tokens. Seconds. */
  lifeSec: number
  /** Users that may not act any more. */
  readonly revoked: Set<string>
  /** Number of exchanges that succeeded. */
  exchanges: number
  /** A token of a user for the gateway, as a sign-in gives it. */
  signIn(user: string, audience: string, lifeSec?: number): Promise<string>
}

async function startLogin(targets: Set<string>): Promise<Login> {
  let provider: Provider | undefined
  const server = await startTestServer((request, response) => {
    if (request.url === '/token' && login.fails()) return void response.writeHead(503).end()
    return provider?.callback()(request, response)
  })
  const { origin: issuer } = new URL(server.url)
  const keys = createRemoteJWKSet(new URL(`${issuer}/jwks`))
  const oidc = new Provider(issuer, {
    clients: [
      {
        client_id: 'gateway',
        client_secret: 'secret-of-gateway',
        grant_types: [EXCHANGE],
        redirect_uris: [],
        response_types: [],
      },
    ],
    features: {
      devInteractions: { enabled: false },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: () => ({ scope: 'tools' }),
      },
    },
  })
  provider = oidc
  const give = async (
    client: object,
    { audience, lifeSec, user }: { audience: string; lifeSec: number; user: string },
  ) => {
    const token = new oidc.AccessToken({ client, accountId: user, scope: 'agent:buyer:call tools' })
    token.resourceServer = new oidc.ResourceServer(audience, {
      scope: 'agent:buyer:call tools',
      accessTokenTTL: lifeSec,
      accessTokenFormat: 'jwt',
      jwt: { sign: { alg: 'RS256' } },
    })
    const value = await token.save()
    login.tokens.push(value)
    return { value, lifeSec }
  }
  oidc.registerGrantType(
    EXCHANGE,
    async (context) => {
      const { client, params } = context.oidc
      const { payload } = await jwtVerify(params['subject_token'] ?? '', keys, { issuer }).catch(
        () => {
          throw new errors.InvalidGrant('the subject token is not valid')
        },
      )
      const user = String(payload.sub)
      const audience = params['resource'] ?? ''
      if (!targets.has(audience)) throw new errors.InvalidTarget('unknown resource')
      if (login.revoked.has(user)) throw new errors.InvalidGrant('the user was revoked')
      const { lifeSec, value } = await give(client, { user, audience, lifeSec: login.lifeSec })
      login.exchanges++
      context.body = {
        access_token: value,
        issued_token_type: 'urn:ietf:params:oauth:token-type:access_token',
        token_type: 'Bearer',
        expires_in: lifeSec,
      }
    },
    [
      'subject_token',
      'subject_token_type',
      'requested_token_type',
      'resource',
      'audience',
      'scope',
    ],
  )
  const login: Login = {
    issuer,
    targets,
    tokens: [],
    fails: () => false,
    lifeSec: 300,
    revoked: new Set(),
    exchanges: 0,
    async signIn(user, audience, lifeSec = 300) {
      const client = await oidc.Client.find('gateway')
      if (client === undefined) throw new Error('The client is not registered')
      return (await give(client, { user, audience, lifeSec })).value
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  }
  return login
}

/** An MCP server that accepts tokens for its own address only, and says who calls. */
interface Orders extends AsyncDisposable {
  readonly url: string
  /** Subject and audience of each tool call. */
  readonly seen: { readonly sub: unknown; readonly aud: unknown; readonly asked: string }[]
  /** Tokens that are refused, as if they were revoked. */
  refuses: (token: string) => boolean
}

async function startOrders(issuer: () => string): Promise<Orders> {
  const seen: Orders['seen'] = []
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const [, token = ''] = request.headers.authorization?.split(' ') ?? []
    const body: unknown = JSON.parse((await text(request)) || '{}')
    const { id, method, params } = z
      .object({
        id: z.unknown().optional(),
        method: z.string().optional(),
        params: z.unknown().optional(),
      })
      .parse(body)
    const keys = createRemoteJWKSet(new URL(`${issuer()}/jwks`))
    const verified = orders.refuses(token)
      ? undefined
      : await jwtVerify(token, keys, { issuer: issuer(), audience: server.url }).catch(
          () => undefined,
        )
    if (verified === undefined) return void response.writeHead(401).end()
    if (request.method !== 'POST') return void response.writeHead(405).end()
    if (id === undefined) return void response.writeHead(202).end()
    const { sub, aud } = verified.payload
    let result: object = {}
    if (method === 'initialize') {
      result = {
        protocolVersion: '2025-11-25',
        capabilities: { tools: {} },
        serverInfo: { name: 'orders', version: '1' },
      }
    } else if (method === 'tools/list') {
      result = {
        tools: [
          {
            name: 'whoami',
            inputSchema: { type: 'object', properties: { asked: { type: 'string' } } },
          },
        ],
      }
    } else if (method === 'tools/call') {
      const { asked } = z
        .object({ arguments: z.object({ asked: z.string() }) })
        .parse(params).arguments
      seen.push({ sub, aud, asked })
      result = { content: [{ type: 'text', text: `You are ${sub}` }] }
    }
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ jsonrpc: '2.0', id, result }))
  }
  const server: TestServer = await startTestServer(
    (request, response) => void answer(request, response),
  )
  const orders: Orders = {
    url: server.url,
    seen,
    refuses: () => false,
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  }
  return orders
}

const State = z.object({
  question: z.string(),
  answer: z.string().optional(),
})

export interface UserWorld extends AsyncDisposable {
  readonly login: Login
  readonly orders: Orders
  readonly saver: MemorySaver
  /** Lines of the log of the gateway, with details. */
  readonly logged: unknown[]
  readonly url: string
  /** Time by which the clock of the exchange goes ahead. Milliseconds. */
  aheadMs: number
  /** A client of a user. `token` is asked before each request. */
  clientOf(
    user: string,
    token: () => string | Promise<string>,
    era?: McpClientOptions['era'],
  ): McpClient
}

interface Kind {
  /** The graph asks its user before it calls the server. @default false */
  readonly asks?: boolean
  /** Calls are queued. @default false */
  readonly tasks?: boolean
  /** The tools and the agent have no options of their own: what fails is left to the defaults. @default false */
  readonly hasDefaults?: boolean
}

export async function startUserWorld({
  asks = false,
  tasks = false,
  hasDefaults = false,
}: Kind = {}): Promise<UserWorld> {
  await using stack = new AsyncDisposableStack()
  const targets = new Set<string>()
  let issuer = ''
  const orders = stack.use(await startOrders(() => issuer))
  targets.add(orders.url)
  const login = stack.use(await startLogin(targets))
  issuer = login.issuer
  const mcp = stack.use(
    createMcpTools({
      servers: { orders: { url: orders.url, era: 'legacy' } },
      authProvider: userTokens(),
      principal: ({ configurable }) => configurable?.['principal'].id,
      ...(!hasDefaults && { onServerError: 'throw', onToolError: 'throw' }),
    }),
  )
  const saver = new MemorySaver()
  const graph = new StateGraph(State)
    .addNode('call', async ({ question }, config) => {
      if (asks) interrupt('Sure?')
      const [tool] = await mcp.listTools({ config })
      if (tool === undefined) throw new Error('There is no tool')
      return { answer: String(await tool.invoke({ asked: question }, config)) }
    })
    .addEdge(START, 'call')
    .compile({ checkpointer: saver })
  const logged: unknown[] = []
  const log = (...line: unknown[]): void => void logged.push(line)
  const logger: GatewayLogger = { warn: log, error: log }
  const resource = 'https://gateway.test/mcp'
  const gateway = createGateway({
    agents: { buyer: { graph, description: 'Buys', output: ({ answer }) => String(answer) } },
    auth: jwtAuth({ issuers: [{ issuer, audience: resource }] }),
    credentials: tokenExchange({
      tokenUrl: `${issuer}/token`,
      clientId: 'gateway',
      clientSecret: 'secret-of-gateway',
      targets: { [orders.url]: {} },
      now: () => Date.now() + world.aheadMs,
    }),
    tools: { tasks: tasks ? 'always' : 'never' },
    log: logger,
  })
  stack.defer(() => gateway.close())
  const { url } = await gateway.listen({ port: 0 })
  const held = stack.move()
  const world: UserWorld = {
    aheadMs: 0,
    login,
    orders,
    saver,
    logged,
    url,
    clientOf(user, token, era) {
      const headers = async () => ({ authorization: `Bearer ${await token()}` })
      const handlers = {
        elicitation: () => ({ action: 'accept' as const, content: { answer: 'yes' } }),
      }
      return held.use(
        new McpClient({ url, headers }, { scope: { principal: user }, handlers, era }),
      )
    },
    [Symbol.asyncDispose]: () => held[Symbol.asyncDispose](),
  }
  return world
}

export const GATEWAY = 'https://gateway.test/mcp'
