import { AIMessage } from '@langchain/core/messages'
import {
  END,
  interrupt,
  MemorySaver,
  MessagesAnnotation,
  START,
  StateGraph,
  type LangGraphRunnableConfig,
} from '@langchain/langgraph'
import { describe, expect, test } from 'vitest'

import { createGateway } from '../src/gateway.ts'
import { CLIENT_KINDS, connect } from './mcp-clients.ts'

/** An agent that writes a draft and asks about it. After the answer it repeats all of that, as graphs do. */
function drafting(_state: unknown, { writer }: LangGraphRunnableConfig) {
  writer?.({ type: 'artifact', name: 'draft.txt', mimeType: 'text/plain', text: 'a draft' })
  const answer: unknown = interrupt('Is it good?')
  writer?.({ type: 'artifact', name: 'final.txt', mimeType: 'text/plain', text: 'a text' })
  return { messages: [new AIMessage(`You said ${String(answer)}`)] }
}

function serve() {
  const graph = new StateGraph(MessagesAnnotation)
    .addNode('draft', drafting)
    .addEdge(START, 'draft')
    .addEdge('draft', END)
    .compile({ checkpointer: new MemorySaver() })
  return createGateway({ agents: { writer: { graph, description: 'Writes' } } })
}

interface Shown {
  readonly type: string
  readonly text?: string
  readonly resource?: { readonly uri: string; readonly text: string }
}

function shownIn(result: Readonly<Record<string, unknown>>): readonly Shown[] {
  return result['content'] as readonly Shown[]
}

describe.each(CLIENT_KINDS)('a client that can answer questions: %s', (kind) => {
  test('gets files from before and after its answer once each, in one scope', async () => {
    await using gateway = serve()
    const { url } = await gateway.listen({ port: 0 })
    await using client = await connect(kind, url, { answer: () => ({ answer: 'yes' }) })
    const content = shownIn(await client.callTool('writer', 'A text'))
    expect(content).toMatchObject([
      { type: 'text', text: 'You said yes' },
      { type: 'resource', resource: { text: 'a draft' } },
      { type: 'resource', resource: { text: 'a text' } },
    ])
    const scopes = content.flatMap(({ resource }) => resource?.uri.split('/')[2] ?? [])
    expect(new Set(scopes).size).toBe(1)
  })

  test('sees the files beside the question if it cannot ask a person', async () => {
    await using gateway = serve()
    const { url } = await gateway.listen({ port: 0 })
    await using client = await connect(kind, url)
    const content = shownIn(await client.callTool('writer', 'A text'))
    expect(content).toMatchObject([
      { type: 'text', text: expect.stringContaining('Is it good?') },
      { type: 'resource', resource: { text: 'a draft' } },
    ])
  })
})
