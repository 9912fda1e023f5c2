import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { AIMessage } from '@langchain/core/messages'
import { END, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'
import { Hono } from 'hono'
import { expect, test } from 'vitest'

import { bearerAuth } from '../src/http/auth/bearer.ts'
import { createGateway } from '../src/gateway.ts'

const graph = new StateGraph(MessagesAnnotation)
  .addNode('answer', ({ messages }) => ({
    messages: [new AIMessage(`You said: ${messages.at(-1)?.text}`)],
  }))
  .addEdge(START, 'answer')
  .addEdge('answer', END)
  .compile()

test('a graph as an MCP server, mounted in an application of Hono', async () => {
  process.env['MCP_TOKEN'] = 'a-token-of-some-length'

  const gateway = createGateway({
    agents: {
      support: {
        graph,
        description: 'Answers order questions',
        output: (state) => state.messages.at(-1).text,
      },
    },
    auth: bearerAuth(process.env['MCP_TOKEN']),
  })
  const app = new Hono().mount('/mcp', gateway.fetch)

  // What a `langgraph.json` names as `http.app` is such an application, too: there is no Node server under it.
  const client = new Client(
    { name: 'test', version: '1.0.0' },
    { versionNegotiation: { mode: 'auto' } },
  )
  await client.connect(
    new StreamableHTTPClientTransport(new URL('http://agents.example/mcp'), {
      fetch: async (url, init) => app.request(String(url), init),
      requestInit: { headers: { authorization: 'Bearer a-token-of-some-length' } },
    }),
  )
  expect((await client.listTools()).tools).toMatchObject([{ name: 'support' }])
  const result = await client.callTool({ name: 'support', arguments: { message: 'Where is it?' } })
  expect(result.content).toEqual([{ type: 'text', text: 'You said: Where is it?' }])
  await client.close()
  await gateway.close()
})
