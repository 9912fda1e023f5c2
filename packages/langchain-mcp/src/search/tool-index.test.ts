import { describe, expect, test } from 'vitest'
import { toolFrom, AnsweringSource } from '../../test/answering-source.ts'
import type { ToolDefinition } from '../tool-source.ts'
import type { McpTool } from '../tools/mcp-tool.ts'
import { indexOf } from './tool-index.ts'

const source = new AnsweringSource()

/** Tools of one server. The model sees the name of the server before each name. */
function toolsOf(server: string, ...definitions: readonly ToolDefinition[]): McpTool[] {
  return definitions.map((definition) =>
    toolFrom({
      source,
      definition,
      server: { name: server },
      name: `${server}_${definition.name}`,
    }),
  )
}

function find(tools: readonly McpTool[], query: string, limit = 5): Promise<string[]> {
  return indexOf(tools).find(query, limit)
}

const tools = [
  ...toolsOf(
    'github',
    { name: 'create_issue', description: 'Create a new issue in a repository' },
    { name: 'listIssues', description: 'List issues' },
    { name: 'create_pull_request', description: 'Create a new pull request' },
  ),
  ...toolsOf(
    'gitlab',
    { name: 'create_issue', description: 'Create a new issue in a project' },
    { name: 'delete_branch', description: 'Delete a branch' },
  ),
  ...toolsOf(
    'browser',
    { name: 'click', description: 'Click an element' },
    { name: 'take_screenshot', description: 'Captures the page' },
    {
      name: 'wait',
      inputSchema: {
        properties: {
          milliseconds: { type: 'number', description: 'Pause before continuing' },
          until: { type: 'object', properties: { state: { enum: ['idle', 'interactive'] } } },
        },
      },
    },
  ),
]

describe('a query', () => {
  test.each([
    ['that is a name finds only this tool', 'github_create_issue', ['github_create_issue']],
    [
      'that is a name on two servers finds both',
      'create_issue',
      ['github_create_issue', 'gitlab_create_issue'],
    ],
    [
      'of several names finds each',
      'select:github_listIssues,browser_click',
      ['github_listIssues', 'browser_click'],
    ],
    ['may have a name in other letters', 'GITHUB_LISTISSUES', ['github_listIssues']],
  ])('%s', async (_title, query, expected) => {
    expect(await find(tools, query)).toEqual(expected)
  })

  test.each([
    ['with a name in a sentence', 'please use delete_branch to click', 'gitlab_delete_branch'],
    ['with a name in camel case in a sentence', 'call listIssues now', 'github_listIssues'],
    ['with a server prefers its tools', 'new issue on gitlab', 'gitlab_create_issue'],
    ['with a synonym', 'picture', 'browser_take_screenshot'],
    ['with a synonym of a verb', 'remove', 'gitlab_delete_branch'],
    ['with another form of the word', 'clicking elements', 'browser_click'],
    ['with an abbreviation', 'open a PR', 'github_create_pull_request'],
    ['with a typing error', 'screnshot', 'browser_take_screenshot'],
    ['with the name of a parameter', 'milliseconds', 'browser_wait'],
    ['with a value that a parameter may have', 'interactive', 'browser_wait'],
    ['with the name of a field in a parameter', 'state', 'browser_wait'],
    ['with words of the description of a parameter', 'pause', 'browser_wait'],
  ])('%s finds the tool first', async (_title, query, expected) => {
    expect((await find(tools, query))[0]).toBe(expected)
  })

  test('with a server finds its tool before a tool of another server that has more of the words', async () => {
    const commenting = [
      ...toolsOf('github', { name: 'add_issue_comment', description: 'Comment on an issue' }),
      ...toolsOf('gitlab', { name: 'create_issue_note', description: 'Adds a note' }),
    ]
    expect((await find(commenting, 'comment on an issue in gitlab'))[0]).toBe(
      'gitlab_create_issue_note',
    )
  })

  test('finds a named tool beside the limit of others', async () => {
    const found = await find(tools, 'delete_branch or create issue', 2)
    expect(found[0]).toBe('gitlab_delete_branch')
    expect(found).toHaveLength(3)
    expect(await find(tools, 'please delete_branch')).toEqual(['gitlab_delete_branch'])
  })

  test('with the word "click" in a sentence does not name the tool "click"', async () => {
    expect(await find(tools, 'click to create issue on github', 1)).toEqual(['github_create_issue'])
  })

  test.each(['', '   ', 'select:', '?!', 'zzzzzzzz', 'the and of', '~0', '\u0000', '\uD800'])(
    'without a word of a tool finds nothing: %j',
    async (query) => {
      expect(await find(tools, query)).toEqual([])
    },
  )

  test('finds nothing among no tools', async () => {
    expect(await find([], 'create_issue')).toEqual([])
  })

  test.each(['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'prototype'])(
    'finds a tool that is called like a property of objects: %s',
    async (name) => {
      const hostile = [...tools, ...toolsOf('evil', { name, description: `${name} ${name}` })]
      expect(await find(hostile, name)).toContain(`evil_${name}`)
      expect(await find(hostile, `run ${name} on evil`)).toContain(`evil_${name}`)
    },
  )

  test('is cut, and names at most 20 tools', async () => {
    const many = toolsOf('many', ...Array.from({ length: 50 }, (_, at) => ({ name: `do_${at}` })))
    const all = many.map(({ name }) => name).join(' ')
    expect(await find(many, `select:${all}`)).toHaveLength(20)
    expect(await find(tools, `${'x '.repeat(1_000_000)} create_issue`)).toEqual([])
    const found = await find(tools, `create_issue ${'(a+)+$ '.repeat(100_000)}`)
    expect(found.slice(0, 2)).toEqual(['github_create_issue', 'gitlab_create_issue'])
  })
})

test('a description that is full of words is not found before the tool that is meant', async () => {
  const everything = 'create issue list delete branch screenshot pull request click '.repeat(1000)
  const stuffed = toolsOf('evil', { name: 'helper', description: everything })
  for (const query of ['create issue', 'delete a branch', 'take a screenshot']) {
    expect((await find([...stuffed, ...tools], query))[0]).not.toBe('evil_helper')
  }
})

test('the end of a long description is not searched', async () => {
  const long = toolsOf('wiki', { name: 'look', description: `${'word '.repeat(200)}unicorn` })
  expect(await find(long, 'word')).toEqual(['wiki_look'])
  expect(await find(long, 'unicorn')).toEqual([])
})

test('equal tools share one index, and others do not', () => {
  expect(indexOf([...tools])).toBe(indexOf(tools))
  expect(indexOf(tools.slice(1))).not.toBe(indexOf(tools))
})

test('a server whose name has no letters is not preferred in each query', async () => {
  const about = { name: 'look', description: 'Shows a page' }
  const inputSchema = { properties: { page: { type: 'string' } } }
  const both = [...toolsOf('📦', about), ...toolsOf('files', { ...about, inputSchema })]
  expect(await find(both, 'a page')).toEqual(['files_look', '📦_look'])
})
