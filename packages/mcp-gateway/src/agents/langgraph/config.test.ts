import { expect, test } from 'vitest'

import { configFolder } from '../../../test/config-folder.ts'
import type { AgentInput } from '../agent.ts'
import { readGraphConfig } from './config.ts'

const ignore = (): void => undefined

test('shows no part of a configuration that is not JSON, because it may hold secrets', async () => {
  await using folder = await configFolder()
  for (const text of ['{ "env": { "KEY": sk-secret } }', '{ "env": { "KEY": "sk-secret" } ']) {
    const file = await folder.file('langgraph.json', text)
    const error: unknown = await readGraphConfig(file, ignore).catch((each: unknown) => each)
    expect(error).toMatchObject({ code: 'CONFIG' })
    expect(error).not.toHaveProperty('cause')
    expect(String(error)).toContain('langgraph.json cannot be read as JSON')
    expect(String(error)).not.toContain('sk-')
  }
})

test('loads the functions of a file, and refuses a function that makes no graph', async () => {
  await using folder = await configFolder()
  await folder.file(
    'made.mjs',
    `const graph = { async stream() {} }
export const ofCaller = ({ configurable }) => ({ ...graph, configurable })
export const builder = { compile: () => graph }
export const nothing = async () => undefined`,
  )
  const names = ['ofCaller', 'builder', 'nothing']
  const entries = names.map((name) => [name, `./made.mjs:${name}`])
  const text = JSON.stringify({ graphs: Object.fromEntries(entries) })
  const graphs = await readGraphConfig(await folder.file('langgraph.json', text), ignore)
  const [ofCaller, builder, nothing] = await Promise.all(graphs.map(({ load }) => load()))
  expect(builder).toEqual({ graph: { stream: expect.any(Function) } })
  if (!ofCaller || !nothing || !('make' in ofCaller) || !('make' in nothing)) {
    throw new Error('They are functions')
  }
  const configurable = { thread_id: 't' }
  await expect(ofCaller.make({ configurable })).resolves.toMatchObject({ configurable })
  await expect(nothing.make({ configurable })).rejects.toMatchObject({ path: 'graphs.nothing' })
})

test.each([
  [{ type: 'string' }, 'Hi', undefined],
  [{ type: 'object', properties: { text: { type: 'string' } } }, { text: 'Hi' }, 'arguments'],
  [{ type: 'object', properties: { n: { type: 'number' } } }, undefined, 'arguments'],
])('makes the input that an entry declares as %j of a message', async (input, made, startsFrom) => {
  await using folder = await configFolder()
  const text = JSON.stringify({ graphs: { a: { path: './graph.mjs:graph', input } } })
  const [graph] = await readGraphConfig(await folder.file('langgraph.json', text), ignore)
  const message: AgentInput = { kind: 'message', text: 'Hi', files: [] }
  expect(graph?.definition.input?.(message, 'a')).toEqual(made)
  expect(graph?.definition.skills?.[0]?.startsFrom).toBe(startsFrom)
})
