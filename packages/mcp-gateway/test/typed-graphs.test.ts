import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { AIMessage } from '@langchain/core/messages'
import {
  Annotation,
  MessagesAnnotation,
  START,
  StateGraph,
  StateSchema,
} from '@langchain/langgraph'
import { expect, test } from 'vitest'
import * as z from 'zod'

import { createGateway } from '../src/gateway.ts'
import type { GatewayOptions } from '../src/options.ts'

interface ListedTool {
  readonly inputSchema: Readonly<Record<string, unknown>>
  readonly outputSchema?: Readonly<Record<string, unknown>>
}

/** A gateway with one agent, and a client of it. */
async function serving(agent: object, tools?: GatewayOptions['tools']) {
  const agents = { plan: { description: 'Plans', ...agent } } as unknown as GatewayOptions['agents']
  const gateway = createGateway({ agents, tools })
  const { url } = await gateway.listen({ port: 0 })
  const client = new Client({ name: 'test', version: '1.0.0' })
  await client.connect(new StreamableHTTPClientTransport(new URL(url)))
  const { tools: listed } = (await client.listTools()) as { tools: readonly ListedTool[] }
  return {
    inputSchema: listed[0]?.inputSchema,
    outputSchema: listed[0]?.outputSchema,
    warnings: gateway.registry.plan().warnings,
    call: async (args: Record<string, unknown>) => {
      const result = await client.callTool({ name: 'plan', arguments: args })
      const [first] = result['content'] as readonly { readonly text: string }[]
      const { isError = false, structuredContent: structured } = result
      return { isError, text: first?.text, ...(structured !== undefined && { structured }) }
    },
    async [Symbol.asyncDispose]() {
      await client.close()
      await gateway.close()
    },
  }
}

const Trip = z.object({
  city: z.string(),
  budget: z.object({ euros: z.number(), currency: z.string().default('EUR') }),
  days: z.number().default(2),
  note: z.string().optional(),
  plan: z.string().optional(),
})

function planning({ city, budget, days }: z.infer<typeof Trip>): { plan: string } {
  return { plan: `${days} days in ${city} for ${budget.euros} ${budget.currency}` }
}

const byState = new StateGraph(Trip).addNode('n', planning).addEdge(START, 'n').compile()
const byInput = new StateGraph({ state: Trip, input: Trip.omit({ plan: true }) })
  .addNode('n', planning)
  .addEdge(START, 'n')
  .compile()
const byOutput = new StateGraph({
  state: Trip.extend({ plan: z.string() }),
  output: z.object({ plan: z.string() }),
})
  .addNode('n', planning)
  .addEdge(START, 'n')
  .compile()
const byStateSchema = new StateGraph(new StateSchema({ ...Trip.shape }))
  .addNode('n', planning as never)
  .addEdge(START, 'n')
  .compile()

test.each([
  ['state', byState],
  ['input', byInput],
  ['state and output', byOutput],
  ['StateSchema', byStateSchema],
])('takes the arguments of a graph whose %s is declared with a schema', async (_, graph) => {
  await using world = await serving({ graph })
  expect(world.inputSchema).toMatchObject({
    required: ['city', 'budget'],
    properties: { budget: { required: ['euros'] }, days: { type: 'number' } },
  })
  const answer = await world.call({ city: 'Rome', budget: { euros: 90 } })
  expect(answer).toMatchObject({ isError: false })
  expect(answer.text).toContain('2 days in Rome for 90 EUR')
  expect(await world.call({ city: 'Rome' })).toEqual({
    isError: true,
    text: "Bad arguments: / must have required property 'budget'",
  })
})

test('offers the declared output of a graph as its output schema', async () => {
  await using world = await serving({ graph: byOutput })
  expect(world.outputSchema).toMatchObject({
    type: 'object',
    properties: { plan: { type: 'string' } },
  })
  expect(world.outputSchema).not.toHaveProperty('required')
  expect(world.warnings).toEqual([])
  await using whole = await serving({ graph: byState })
  expect(whole.outputSchema).toBeUndefined()
  await using made = await serving({ graph: byOutput, output: () => 'Text' })
  expect(made.outputSchema).toBeUndefined()
})

test('takes an output without defaults and with more keys, and refuses one of another type', async () => {
  const Stop = z.object({ place: z.string(), nights: z.number().default(1) })
  const graphOf = (stop: object) =>
    new StateGraph({
      state: z.object({ city: z.string(), stops: z.any() }),
      output: z.object({ stops: z.array(Stop) }),
    })
      .addNode('n', () => ({ stops: [stop] }) as never)
      .addEdge(START, 'n')
      .compile()
  await using world = await serving({ graph: graphOf({ place: 'Rome', note: 'old' }) })
  expect(world.outputSchema).toHaveProperty('properties.stops.items.properties.place')
  expect(await world.call({ city: 'Rome' })).toMatchObject({ isError: false })
  await using wrong = await serving({ graph: graphOf({ place: 7 }) })
  const answer = await wrong.call({ city: 'Rome' })
  expect(answer).toMatchObject({ isError: true, text: expect.stringContaining('own schema') })
})

test('an output schema says nothing that a client checks more strictly than the gateway', async () => {
  const Folder = z.object({
    name: z.string(),
    get folders() {
      return z.union([z.string(), z.array(Folder)]).optional()
    },
  })
  const shapes = {
    page: z.url().describe('The page'),
    code: z.string().regex(/^[A-Z]+$/),
    place: z.tuple([z.string()], z.number()),
    kind: z.discriminatedUnion('type', [
      z.object({ type: z.string().regex(/^a/) as never, size: z.number() }),
      z.object({ type: z.literal('b'), size: z.number() }),
    ]),
    price: z.number().multipleOf(0.1),
    words: z.record(z.string().regex(/^[a-z]+$/), z.number()),
    folder: Folder,
  }
  const output = {
    page: 'no address',
    code: 'x',
    place: ['Rome', 41.9],
    kind: { type: 'b', size: 1 },
    price: 0.3,
    words: { A1: 1 },
    folder: { name: 'a', folders: [{ name: 'b', folders: 'c' }] },
  }
  for (const [name, shape] of Object.entries(shapes)) {
    const graph = new StateGraph({
      state: z.object({ city: z.string(), [name]: z.any() }),
      output: z.object({ [name]: shape }),
    })
      .addNode('n', () => ({ [name]: output[name as keyof typeof output] }) as never)
      .addEdge(START, 'n')
      .compile()
    await using world = await serving({ graph })
    expect(world.outputSchema).toHaveProperty(`properties.${name}`)
    const { structured } = await world.call({ city: 'Rome' })
    expect(structured).toEqual({ [name]: output[name as keyof typeof output] })
  }
})

test('returns an empty object for a graph that sets no key of its declared output', async () => {
  const graph = new StateGraph({
    state: z.object({ city: z.string(), score: z.number().optional() }),
    output: z.object({ score: z.number() }),
    input: z.object({ city: z.string() }),
  })
    .addNode('n', () => ({}))
    .addEdge(START, 'n')
    .compile()
  await using world = await serving({ graph })
  const answer = await world.call({ city: 'Rome' })
  expect(answer).toEqual({ isError: false, text: '{}', structured: {} })
})

test('offers no output schema where JSON cannot express the output', async () => {
  const graph = new StateGraph({
    state: z.object({ city: z.string(), day: z.date().optional() }),
    output: z.object({ day: z.date() }),
  })
    .addNode('n', () => ({ day: new Date(0) }))
    .addEdge(START, 'n')
    .compile()
  await using world = await serving({ graph })
  expect(world.outputSchema).toBeUndefined()
  expect(await world.call({ city: 'Rome' })).toMatchObject({ isError: false })
})

test('takes arguments even if `parameters` is `message` and no field can hold a message', async () => {
  await using world = await serving({ graph: byInput }, { parameters: 'message' })
  expect(world.inputSchema?.['required']).toEqual(['city', 'budget'])
})

test('takes a message if `parameters` is `message` and one text is all that the graph needs', async () => {
  const State = z.object({ topic: z.string(), words: z.number().optional() })
  const graph = new StateGraph(State)
    .addNode('n', ({ topic }) => ({ topic: topic.toUpperCase() }))
    .addEdge(START, 'n')
    .compile()
  await using world = await serving({ graph }, { parameters: 'message' })
  expect(world.inputSchema?.['required']).toEqual(['message'])
  expect((await world.call({ message: 'tea' })).text).toContain('TEA')
})

test('takes the arguments of an input without messages, whatever the state holds', async () => {
  const graph = new StateGraph({
    state: z.object({ messages: z.array(z.string()).default([]), topic: z.string() }),
    input: z.object({ topic: z.string() }),
  })
    .addNode('n', ({ topic }) => ({ topic: topic.toUpperCase() }))
    .addEdge(START, 'n')
    .compile()
  await using world = await serving({ graph, output: (state: { topic: string }) => state.topic })
  expect(world.inputSchema?.['required']).toEqual(['topic'])
  expect(await world.call({ topic: 'tea' })).toEqual({ isError: false, text: 'TEA' })
})

test('gives the message to the `input` function of a graph, with and without a schema', async () => {
  const state = Annotation.Root({ city: Annotation<string>, answer: Annotation<string> })
  const untyped = new StateGraph(state)
    .addNode('n', ({ city }) => ({ answer: `Go to ${city}` }))
    .addEdge(START, 'n')
    .compile()
  const typed = new StateGraph(z.object({ city: z.string(), answer: z.string().optional() }))
    .addNode('n', ({ city }) => ({ answer: `Go to ${city}` }))
    .addEdge(START, 'n')
    .compile()
  for (const graph of [untyped, typed]) {
    await using world = await serving({
      graph,
      input: (given: { readonly text: string }) => ({ city: given.text }),
      output: ({ answer }: { readonly answer: string }) => answer,
    })
    expect(world.inputSchema?.['required']).toEqual(['message'])
    expect(await world.call({ message: 'Oslo' })).toEqual({ isError: false, text: 'Go to Oslo' })
  }
})

test('refuses a call whose `input` the graph does not take, as an error of its caller', async () => {
  const graph = new StateGraph(z.object({ city: z.string() }))
    .addNode('plan', ({ city }) => ({ city: `${city}!` }))
    .addEdge(START, 'plan')
    .compile()
  await using world = await serving({ graph, input: () => ({ city: 5 }) })
  const { isError, text } = await world.call({ message: 'Hi' })
  expect([isError, text]).toEqual([true, expect.stringContaining('does not take these arguments')])
})

test('takes a message for a graph with messages', async () => {
  const graph = new StateGraph(MessagesAnnotation)
    .addNode('n', ({ messages }) => ({ messages: [new AIMessage(messages[0]?.text ?? '')] }))
    .addEdge(START, 'n')
    .compile()
  await using world = await serving({ graph })
  expect(world.inputSchema?.['required']).toEqual(['message'])
  expect(await world.call({ message: 'Hi' })).toEqual({ isError: false, text: 'Hi' })
})
