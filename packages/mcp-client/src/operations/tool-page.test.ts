import { expect, test } from 'vitest'
import { toolPageFrom } from './tool-page.ts'

const inputSchema = { type: 'object' }

test('a page is its tools and its cursor', () => {
  const tools = [{ name: 'a', inputSchema, outputSchema: { type: 'object' } }]
  expect(toolPageFrom({ tools, nextCursor: 'x' })).toEqual({ tools, nextCursor: 'x', setAside: [] })
})

test('a tool with an invalid definition is set aside, with a reason; the rest stays', () => {
  const good = { name: 'good', inputSchema }
  const page = toolPageFrom({ tools: [{ name: 'bad', inputSchema: 'none' }, good, null, {}] })
  expect(page?.tools).toEqual([good])
  expect(page?.setAside).toEqual([
    expect.stringContaining('tool 1: inputSchema'),
    expect.stringContaining('tool 3:'),
    expect.stringContaining('tool 4: name'),
  ])
})

test('an output schema that is not of an object is left out, and the tool stays', () => {
  const page = toolPageFrom({
    tools: [{ name: 'a', inputSchema, outputSchema: { type: 'array' } }],
  })
  expect(page).toEqual({ tools: [{ name: 'a', inputSchema }], setAside: [] })
})

test.each([{}, { tools: 'none' }, { tools: [], nextCursor: 7 }])('%o is no page', (result) => {
  expect(toolPageFrom(result)).toBe(undefined)
})
