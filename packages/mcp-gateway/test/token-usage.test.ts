import { once } from 'node:events'

import { InMemoryCache } from '@langchain/core/caches'
import { AIMessage, AIMessageChunk, type BaseMessage } from '@langchain/core/messages'
import { ChatGenerationChunk } from '@langchain/core/outputs'
import { MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'
import { deferred } from '@x/mcp-testing'
import { expect, test } from 'vitest'

import { createGateway } from '../src/gateway.ts'
import type { RunEvent } from '../src/internal/run-event.ts'
import { connect } from './mcp-clients.ts'
import { ScriptedModel } from './scripted-model.ts'
import { request } from './task-requests.ts'

/** A model whose messages cost 10 tokens and 2 tokens. */
class CountedModel extends ScriptedModel {
  readonly #name: string

  constructor(name: string) {
    const usage = { input_tokens: 10, output_tokens: 2, total_tokens: 12 }
    super(Object.assign(new AIMessage('Hi'), { usage_metadata: usage }))
    this.#name = name
  }

  override getLsParams() {
    return { ls_model_name: this.#name } as never
  }
}

function asking(name: string) {
  const model = new CountedModel(name)
  return async ({ messages }: { messages: BaseMessage[] }) => ({
    messages: [await model.invoke(messages)],
  })
}

test('a result tells the tokens of each model, also of those in subgraphs and in earlier steps', async () => {
  const inner = new StateGraph(MessagesAnnotation)
    .addNode('inner', asking('small'))
    .addEdge(START, 'inner')
    .compile()
  const graph = new StateGraph(MessagesAnnotation)
    .addNode('first', asking('large'))
    .addNode('sub', inner)
    .addNode('last', asking('large'))
    .addEdge(START, 'first')
    .addEdge('first', 'sub')
    .addEdge('sub', 'last')
    .compile()
  const ends: RunEvent[] = []
  await using gateway = createGateway({
    agents: { team: { graph, description: 'Talks' } },
    observer: { runEvent: (event) => void (event.type === 'ended' && ends.push(event)) },
  })
  const { url } = await gateway.listen({ port: 0 })
  await using client = await connect('v1', url)
  const { _meta: meta } = (await client.callTool('team', 'Hello')) as { _meta?: object }
  const usage = [
    { model: 'large', inputTokens: 20, outputTokens: 4 },
    { model: 'small', inputTokens: 10, outputTokens: 2 },
  ]
  expect(meta).toMatchObject({ usage })
  expect(ends).toMatchObject([{ outcome: 'done', usage }])
})

test('a failed run tells what its models have used', async () => {
  const graph = new StateGraph(MessagesAnnotation)
    .addNode('first', asking('large'))
    .addNode('last', () => {
      throw new Error('broken')
    })
    .addEdge(START, 'first')
    .addEdge('first', 'last')
    .compile()
  await using gateway = createGateway({
    agents: { team: { graph, description: 'Talks' } },
    log: false,
  })
  const { url } = await gateway.listen({ port: 0 })
  await using client = await connect('v1', url)
  const { _meta: meta } = (await client.callTool('team', 'Hello')) as { _meta?: object }
  const usage = [{ model: 'large', inputTokens: 10, outputTokens: 2 }]
  expect(meta).toMatchObject({ reason: 'agent_failed', usage })
})

test('counts each call of a model once, whatever nodes do with its message', async () => {
  const hidden = new CountedModel('hidden').withConfig({ tags: ['nostream'] })
  const graph = new StateGraph(MessagesAnnotation)
    .addNode('first', async (state, config) => {
      await hidden.invoke(state.messages, config)
      return asking('large')(state)
    })
    .addNode('copy', ({ messages }) => {
      const { usage_metadata: usage } = messages.at(-1) as AIMessage
      const copy = Object.assign(new AIMessage('Copied'), { usage_metadata: usage })
      return { messages: [copy] }
    })
    .addEdge(START, 'first')
    .addEdge('first', 'copy')
    .compile()
  await using gateway = createGateway({ agents: { team: { graph, description: 'Talks' } } })
  const { url } = await gateway.listen({ port: 0 })
  await using client = await connect('v1', url)
  const { _meta: meta } = (await client.callTool('team', 'Hello')) as { _meta?: object }
  const usage = ['hidden', 'large'].map((model) => ({ model, inputTokens: 10, outputTokens: 2 }))
  expect(meta).toMatchObject({ usage })
})

test('does not count the answers of a cache', async () => {
  const model = new CountedModel('large')
  model.cache = new InMemoryCache()
  const ask = async () => ({ messages: [await model.invoke('Hi')] })
  const graph = new StateGraph(MessagesAnnotation)
    .addNode('first', ask)
    .addNode('last', ask)
    .addEdge(START, 'first')
    .addEdge('first', 'last')
    .compile()
  await using gateway = createGateway({ agents: { team: { graph, description: 'Talks' } } })
  const { url } = await gateway.listen({ port: 0 })
  await using client = await connect('v1', url)
  const { _meta: meta } = (await client.callTool('team', 'Hello')) as { _meta?: object }
  expect(meta).toMatchObject({ usage: [{ model: 'large', inputTokens: 10, outputTokens: 2 }] })
})

/** A model that is aborted after the first piece of its answer, which tells the tokens of the question. */
class AbortedModel extends CountedModel {
  readonly #abort = new AbortController()

  override async *_streamResponseChunks(): AsyncGenerator<ChatGenerationChunk> {
    const usage = { input_tokens: 10, output_tokens: 1, total_tokens: 11 }
    const message = Object.assign(new AIMessageChunk('H'), { usage_metadata: usage })
    yield new ChatGenerationChunk({ text: 'H', message })
    this.#abort.abort()
    yield new ChatGenerationChunk({ text: 'i', message: new AIMessageChunk('i') })
  }

  get signal(): AbortSignal {
    return this.#abort.signal
  }
}

test('counts what an aborted call of a model has told', async () => {
  const slow = new AbortedModel('slow')
  const graph = new StateGraph(MessagesAnnotation)
    .addNode('first', async (state) => {
      const { signal } = slow
      await expect(slow.invoke(state.messages, { signal })).rejects.toThrow('aborted')
      return asking('large')(state)
    })
    .addEdge(START, 'first')
    .compile()
  await using gateway = createGateway({ agents: { team: { graph, description: 'Talks' } } })
  const { url } = await gateway.listen({ port: 0 })
  await using client = await connect('v1', url)
  const { _meta: meta } = (await client.callTool('team', 'Hello')) as { _meta?: object }
  const usage = [
    { model: 'slow', inputTokens: 10, outputTokens: 1 },
    { model: 'large', inputTokens: 10, outputTokens: 2 },
  ]
  expect(meta).toMatchObject({ usage })
})

/** A model whose answer stops after its first piece, until it is aborted. */
class EndlessModel extends CountedModel {
  readonly isSilent = deferred()

  override async *_streamResponseChunks(
    _messages: BaseMessage[],
    { signal }: this['ParsedCallOptions'],
  ): AsyncGenerator<ChatGenerationChunk> {
    const usage = { input_tokens: 10, output_tokens: 1, total_tokens: 11 }
    const message = Object.assign(new AIMessageChunk('H'), { usage_metadata: usage })
    yield new ChatGenerationChunk({ text: 'H', message })
    this.isSilent.resolve()
    await once(signal ?? new AbortController().signal, 'abort')
    yield new ChatGenerationChunk({ text: 'i', message: new AIMessageChunk('i') })
  }
}

test('counts the model of a run that is cancelled', async () => {
  const model = new EndlessModel('slow')
  const graph = new StateGraph(MessagesAnnotation)
    .addNode('first', async (state, config) => {
      return { messages: [await model.invoke(state.messages, config)] }
    })
    .addEdge(START, 'first')
    .compile()
  const ended = deferred<RunEvent>()
  await using gateway = createGateway({
    agents: { team: { graph, description: 'Talks' } },
    observer: { runEvent: (event) => void (event.type === 'ended' && ended.resolve(event)) },
  })
  const left = new AbortController()
  const call = request('tools/call', { name: 'team', arguments: { message: 'Hello' } })
  const answer = gateway.fetch(new Request(call, { signal: left.signal }))
  await model.isSilent.promise
  left.abort()
  await answer.catch(() => {})
  expect(await ended.promise).toMatchObject({
    outcome: 'cancelled',
    usage: [{ model: 'slow', inputTokens: 10, outputTokens: 1 }],
  })
})
