import { expect, test } from 'vitest'
import { isAppOnly, uiOf } from './mcp-apps.ts'

const tool = (_meta: unknown) => ({ name: 'pick', _meta }) as Parameters<typeof uiOf>[0]

test.each([
  ['no _meta', undefined, false],
  ['no ui', {}, false],
  ['no visibility', { ui: { resourceUri: 'ui://shop/pick' } }, false],
  ['both', { ui: { visibility: ['model', 'app'] } }, false],
  ['the model', { ui: { visibility: ['model'] } }, false],
  ['an app', { ui: { visibility: ['app'] } }, true],
  ['nobody', { ui: { visibility: [] } }, true],
  ['somebody else', { ui: { visibility: ['internal'] } }, true],
  ['a text instead of a list', { ui: { visibility: 'app' } }, false],
  ['null', { ui: null }, false],
])('tells whether only an app may call a tool that names %s', (_who, meta, expected) => {
  expect(isAppOnly(tool(meta))).toBe(expected)
})

test.each([
  [{ ui: { resourceUri: 'ui://shop/new', prefersBorder: true } }, 'ui://shop/new'],
  [{ 'ui/resourceUri': 'ui://shop/old' }, 'ui://shop/old'],
  [{ 'ui/resourceUri': 'ui://shop/old', ui: { resourceUri: 'ui://shop/new' } }, 'ui://shop/new'],
  [{ ui: { resourceUri: 'https://evil.example' } }, undefined],
  [{ ui: { resourceUri: 7 } }, undefined],
])('finds the user interface in %j', (meta, expected) => {
  expect(uiOf(tool(meta)).resourceUri).toBe(expected)
})

test('keeps the other fields of the server', () => {
  expect(uiOf(tool({ ui: { resourceUri: 'ui://a/b', domain: 'x' } }))).toEqual({
    resourceUri: 'ui://a/b',
    domain: 'x',
  })
})
