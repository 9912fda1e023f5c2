import { describe, expect, test } from 'vitest'
import { textOf, toolOutputFrom } from './tool-output.ts'

const PIXEL = 'iVBORw0KGgo='

test('returns one text as a string', () => {
  const content = [{ type: 'text', text: 'hello' }]
  expect(toolOutputFrom({ content })).toEqual({
    content: 'hello',
    artifact: [{ type: 'mcp_content', data: content }],
  })
})

test('returns several texts as one string', () => {
  const resource = { uri: 'file:///a', text: 'c' }
  const content = [
    { type: 'text', text: 'a' },
    { type: 'text', text: 'b' },
    { type: 'resource', resource },
    { type: 'audio', data: 'AAAA', mimeType: 'audio/wav' },
  ]
  const output = toolOutputFrom({ content })
  expect(output.content).toMatch(/^a\nb\nResource file:\/\/\/a:\nc\n\[Left out: audio/)
  expect(output.artifact).toEqual([{ type: 'mcp_content', data: content }])
})

test.each(['', ' \n'])('leaves out a blank text, which Anthropic refuses: %j', (text) => {
  const blank = { type: 'text', text }
  const image = { type: 'image', data: PIXEL, mimeType: 'image/png' }
  expect(toolOutputFrom({ content: [blank, image, blank] }).content).toEqual([image])
  expect(toolOutputFrom({ content: [blank] }).content).toBe('')
  const structuredContent = { degrees: 21 }
  const output = toolOutputFrom({ content: [blank], structuredContent })
  expect(output.content).toBe('{"degrees":21}')
})

test('keeps the order of several blocks', () => {
  const { content } = toolOutputFrom({
    content: [
      { type: 'text', text: 'before' },
      { type: 'image', data: PIXEL, mimeType: 'image/png' },
      { type: 'image', data: 'R0lGODlh', mimeType: 'image/gif' },
      { type: 'text', text: 'after' },
    ],
  })
  expect(content).toEqual([
    { type: 'text', text: 'before' },
    { type: 'image', data: PIXEL, mimeType: 'image/png' },
    { type: 'image', data: 'R0lGODlh', mimeType: 'image/gif' },
    { type: 'text', text: 'after' },
  ])
})

test('shows the URI of an embedded text', () => {
  const resource = { uri: 'file:///notes.md', mimeType: 'text/markdown', text: '# Notes' }
  const { content } = toolOutputFrom({ content: [{ type: 'resource', resource }] })
  expect(content).toBe('Resource file:///notes.md:\n# Notes')
})

test.each([
  ['image/png', 'image'],
  ['audio/mpeg', 'audio'],
  ['application/pdf', 'file'],
  [undefined, 'file'],
])('turns an embedded blob of type %s into a block of type %s', (mimeType, type) => {
  const resource = { uri: 'file:///a', mimeType, blob: PIXEL }
  const result = { content: [{ type: 'resource', resource }] }
  const { content } = toolOutputFrom(result, { schemaFor: 'none' })
  expect(content).toEqual([
    {
      type,
      data: PIXEL,
      mimeType: mimeType ?? 'application/octet-stream',
      metadata: { uri: 'file:///a' },
    },
  ])
})

test('describes a link without fetching it', () => {
  const link = {
    type: 'resource_link',
    uri: 'https://docs.example/guide.pdf',
    name: 'guide',
    mimeType: 'application/pdf',
    description: 'How it works',
  }
  const output = toolOutputFrom({ content: [link] })
  expect(textOf(output.content)).toBe(
    'Resource link "guide" https://docs.example/guide.pdf (application/pdf): How it works',
  )
  expect(output.artifact).toEqual([{ type: 'mcp_content', data: [link] }])
})

test('shows a block of an unknown type as JSON', () => {
  const block = { type: 'hologram', depth: 3 }
  const { content } = toolOutputFrom({ content: [block] })
  expect(content).toBe('{"type":"hologram","depth":3}')
})

test('shows blocks without their data as they are', () => {
  const { content } = toolOutputFrom({
    content: [{ type: 'text' }, { type: 'image', mimeType: 'image/png' }, { type: 'resource' }, 7],
  })
  expect(textOf(content).split('\n')).toEqual([
    '{"type":"text"}',
    '{"type":"image","mimeType":"image/png"}',
    '{"type":"resource"}',
    '7',
  ])
})

test('passes structured content to the application, and the text to the model', () => {
  expect(
    toolOutputFrom({
      content: [{ type: 'text', text: '21 degrees' }],
      structuredContent: { degrees: 21, wind: null },
      _meta: { cost: 1 },
    }),
  ).toEqual({
    content: '21 degrees',
    artifact: [
      { type: 'mcp_structured_content', data: { degrees: 21, wind: null } },
      { type: 'mcp_meta', data: { cost: 1 } },
      { type: 'mcp_content', data: [{ type: 'text', text: '21 degrees' }] },
    ],
  })
})

test('shows structured content without any text as JSON', () => {
  const output = toolOutputFrom({ content: [], structuredContent: { degrees: 21 } })
  expect(output.content).toBe('{"degrees":21}')
})

test.each([{ content: [] }, {}])('shows an empty text for no content: %j', (result) => {
  expect(toolOutputFrom(result)).toEqual({ content: '', artifact: [] })
})

test('removes null fields of blocks, but not inside their data', () => {
  const { artifact } = toolOutputFrom({
    content: [
      { type: 'text', text: 'x', annotations: null, _meta: { keep: null } },
      { type: 'resource', resource: { uri: 'a:b', text: 'y', mimeType: null } },
    ],
  })
  expect(artifact).toEqual([
    {
      type: 'mcp_content',
      data: [
        { type: 'text', text: 'x', _meta: { keep: null } },
        { type: 'resource', resource: { uri: 'a:b', text: 'y' } },
      ],
    },
  ])
})

test('cuts text over the limit with a note, and keeps all of it in the artifact', () => {
  const output = toolOutputFrom(
    {
      content: [
        { type: 'text', text: 'aaaa' },
        { type: 'image', data: PIXEL, mimeType: 'image/png' },
        { type: 'text', text: 'bbbb' },
        { type: 'text', text: 'cccc' },
      ],
    },
    { maxTextCharacters: 6 },
  )
  expect(output.content).toEqual([
    { type: 'text', text: 'aaaa' },
    { type: 'image', data: PIXEL, mimeType: 'image/png' },
    { type: 'text', text: expect.stringMatching(/^bb\n\[Cut: this result has 12 characters/) },
  ])
  expect(JSON.stringify(output.artifact)).toContain('cccc')
})

test('never splits a character', () => {
  const { content } = toolOutputFrom(
    { content: [{ type: 'text', text: 'ab😀cd' }] },
    { maxTextCharacters: 3 },
  )
  expect(textOf(content)).toMatch(/^ab\n/)
})

describe('large results', () => {
  test('cut a text at 100 000 characters by default, with all of it in the artifact', () => {
    const text = 'x'.repeat(100_001)
    const { content, artifact } = toolOutputFrom({ content: [{ type: 'text', text }] })
    expect(textOf(content).length).toBeLessThan(100_200)
    expect(content).toContain('[Cut: this result has 100001 characters of text')
    expect(artifact).toEqual([{ type: 'mcp_content', data: [{ type: 'text', text }] }])
    const all = toolOutputFrom(
      { content: [{ type: 'text', text }] },
      { maxTextCharacters: Number.POSITIVE_INFINITY },
    )
    expect(all.content).toBe(text)
  })

  test('cut structured content that is shown as text too', () => {
    const { content } = toolOutputFrom(
      { structuredContent: { rows: 'x'.repeat(100) } },
      { maxTextCharacters: 20 },
    )
    expect(content).toMatch(/^\{"rows":"x+\n\[Cut: /)
  })

  test('leave out media beyond the limit, at their places', () => {
    const image = (data: string) => ({ type: 'image', data, mimeType: 'image/png' })
    const png = (bytes: number): string =>
      Buffer.concat([Buffer.from(PIXEL, 'base64'), Buffer.alloc(bytes)], bytes).toString('base64')
    const small = png(30)
    const large = png(90)
    const { content, artifact } = toolOutputFrom(
      { content: [image(small), image(large), { type: 'text', text: 'two images' }] },
      { maxMediaBytes: 60 },
    )
    expect(content).toEqual([
      { type: 'image', data: small, mimeType: 'image/png' },
      { type: 'text', text: expect.stringContaining('image (image/png) of 90 bytes') },
      { type: 'text', text: 'two images' },
    ])
    expect(artifact).toEqual([
      { type: 'mcp_content', data: [image(small), image(large), expect.anything()] },
    ])
  })
})

test.each([
  { type: 'resource', resource: { uri: 'ui://shop/cart', mimeType: 'text/html', text: '<h1>' } },
  { type: 'resource', resource: { uri: 'UI://shop/cart', mimeType: 'text/html', blob: PIXEL } },
  { type: 'resource_link', uri: 'ui://shop/cart', name: 'cart' },
])('shows a note instead of a user interface, which the artifact has', (block) => {
  const { content, artifact } = toolOutputFrom({ content: [block] })
  expect(content).toMatch(/^\[Left out: user interface ui:\/\/shop\/cart/i)
  expect(artifact).toEqual([{ type: 'mcp_content', data: [block] }])
})
