import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { AIMessage } from '@langchain/core/messages'
import {
  END,
  interrupt,
  MemorySaver,
  MessagesAnnotation,
  START,
  StateGraph,
} from '@langchain/langgraph'
import { describe, expect, test } from 'vitest'

import { createGateway } from '../src/gateway.ts'
import { CLIENT_KINDS, connect } from './mcp-clients.ts'

/** Wants to know two things, one after the other. */
function ordering(): string {
  const size: unknown = interrupt('Which size?')
  const colour: unknown = interrupt('Which colour?')
  return `One ${String(colour)} in ${String(size)}`
}

function shop(checkpointer = new MemorySaver()) {
  return new StateGraph(MessagesAnnotation)
    .addNode('answer', () => ({ messages: [new AIMessage(ordering())] }))
    .addEdge(START, 'answer')
    .addEdge('answer', END)
    .compile({ checkpointer })
}

describe.each(CLIENT_KINDS)('a client: %s', (kind) => {
  test('answers the interrupts of a graph, one after the other', async () => {
    const checkpointer = new MemorySaver()
    const graph = shop(checkpointer)
    await using gateway = createGateway({ agents: { shop: { graph, description: 'Sells' } } })
    const { url } = await gateway.listen({ port: 0 })
    const asked: string[] = []
    await using client = await connect(kind, url, {
      answer: (message) => {
        asked.push(message)
        return { answer: message.includes('size') ? 'L' : 'red' }
      },
    })
    const heard: string[] = []
    const result = await client.callTool('shop', 'A shirt', {
      onProgress: (message) => heard.push(message),
    })
    expect(asked).toEqual(['Which size?', 'Which colour?'])
    expect(result['content']).toEqual([{ type: 'text', text: 'One red in L' }])
    expect(heard).toContain('Done: answer')
    expect(Object.keys(checkpointer.storage)).toEqual([])
  })
})

/** Pays after a breakpoint. */
function payer() {
  return new StateGraph(MessagesAnnotation)
    .addNode('pay', () => ({ messages: [new AIMessage('Paid')] }))
    .addEdge(START, 'pay')
    .compile({ checkpointer: new MemorySaver(), interruptBefore: ['pay'] })
}

test.each(CLIENT_KINDS)('a client %s is asked at a breakpoint', async (kind) => {
  await using gateway = createGateway({
    agents: { payer: { graph: payer(), description: 'Pays' } },
  })
  const { url } = await gateway.listen({ port: 0 })
  const asked: string[] = []
  await using client = await connect(kind, url, {
    answer: (message) => {
      asked.push(message)
      return {}
    },
  })
  const result = await client.callTool('payer', 'Pay')
  expect(asked).toEqual(['The agent stopped before "pay".\nContinue?'])
  expect(result['content']).toEqual([{ type: 'text', text: 'Paid' }])
})

test('a breakpoint has the reason needs_input for a client that cannot ask', async () => {
  await using gateway = createGateway({
    agents: { payer: { graph: payer(), description: 'Pays' } },
  })
  const { url } = await gateway.listen({ port: 0 })
  await using client = await connect('v1', url)
  const result = await client.callTool('payer', 'Pay')
  expect(result['_meta']).toMatchObject({ reason: 'needs_input' })
})

test('a client that cannot ask a person gets the question as text, and answers by `resume`', async () => {
  const graph = shop()
  await using gateway = createGateway({ agents: { shop: { graph, description: 'Sells' } } })
  const { url } = await gateway.listen({ port: 0 })
  const client = new Client({ name: 'test', version: '1.0.0' })
  await client.connect(new StreamableHTTPClientTransport(new URL(url)))
  try {
    const call = async (args: Record<string, unknown>) => {
      const result = await client.callTool({ name: 'shop', arguments: args })
      return result as { readonly content: unknown; readonly structuredContent?: { run: string } }
    }
    const first = await call({ message: 'A shirt' })
    expect(first.structuredContent).toMatchObject({
      status: 'needs_input',
      questions: [{ key: 'i0', message: 'Which size?' }],
    })
    const answers = (answer: string) => ({ i0: { answer } })
    const second = await call({
      resume: { run: first.structuredContent?.run, answers: answers('L') },
    })
    expect(second.structuredContent).toMatchObject({ questions: [{ message: 'Which colour?' }] })
    const end = await call({
      message: 'A shirt',
      resume: { run: second.structuredContent?.run, answers: answers('red') },
    })
    expect(end.content).toEqual([{ type: 'text', text: 'One red in L' }])
  } finally {
    await client.close()
  }
})

/** Says how many messages it knows, and stops to ask before the third. */
function counting(checkpointer: MemorySaver) {
  return new StateGraph(MessagesAnnotation)
    .addNode('answer', ({ messages }) => {
      const more = messages.length === 3 ? `, ${String(interrupt('Really?'))}` : ''
      return { messages: [new AIMessage(`${messages.length}${more}`)] }
    })
    .addEdge(START, 'answer')
    .addEdge('answer', END)
    .compile({ checkpointer })
}

test('with mode thread a graph knows what was said before in the session, and in no other', async () => {
  const checkpointer = new MemorySaver()
  const graph = counting(checkpointer)
  await using gateway = createGateway({
    agents: { count: { graph, description: 'Counts' } },
    runs: { mode: 'thread' },
  })
  const { url } = await gateway.listen({ port: 0 })
  await using one = await connect('v1', url, { answer: () => ({ answer: 'yes' }) })
  await using other = await connect('v1', url)
  const texts: unknown[] = []
  for (const client of [one, one, one, other]) {
    const { content } = await client.callTool('count', 'Hello')
    texts.push(content)
  }
  const text = (said: string): object => [{ type: 'text', text: said }]
  expect(texts).toEqual([text('1'), text('3, yes'), text('5'), text('1')])
  expect(Object.keys(checkpointer.storage)).toHaveLength(2)
})
