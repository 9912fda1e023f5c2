import { convertToOpenAITool } from '@langchain/core/utils/function_calling'
import { createMcpTools, type McpTool, type ToolSearch } from '@x/langchain-mcp'
import { Tiktoken } from 'js-tiktoken/lite'
import o200k from 'js-tiktoken/ranks/o200k_base'
import { comparedFigure, plainFigure } from '../measure/figure.ts'
import type { BenchOptions, BenchResult, Figure, Measured } from '../measure/figure.ts'
import { catalogueServers } from './catalogue.ts'
import { HELD_OUT } from './held-out.ts'
import { REQUESTS, UNSEEN, type SearchRequest } from './requests.ts'

const FOUND_AT_ONCE = 5

/** A request with the tools that a search for it found. */
interface Searched {
  readonly request: SearchRequest
  /** Tokens of the definitions that the model gets after the search. */
  readonly tokens: number
  /** Duration of the search, in milliseconds. */
  readonly ms: number
  /** Position of the first tool that serves the request, from 0. -1 if there is none. */
  readonly position: number
}

/** Tokens of the definitions of 327 tools with and without the search, and the requests whose tool it finds. */
export async function searchFigures({ progress }: BenchOptions): Promise<BenchResult> {
  await using mcp = createMcpTools({
    servers: await catalogueServers(),
    tools: { search: true },
    log: () => {},
  })
  progress('search: the servers list their tools')
  const tools = await mcp.listTools()
  const down = mcp.status().filter(({ state }) => state !== 'up')
  if (down.length > 0) {
    const invalid = down.map(({ name, state }) => `the server "${name}" is ${state}`)
    return { figures: [], invalid }
  }
  const search = await mcp.toolSearch()
  const encoding = new Tiktoken(o200k)
  const count: CountTokens = (shown) => encoding.encode(JSON.stringify(shown.map(asSent))).length
  progress('search: all requests')
  const searched: Searched[] = []
  for (const request of [...REQUESTS, ...UNSEEN, ...HELD_OUT]) {
    searched.push(await searchedFor(request, { tools, search, count }))
  }
  const [first] = searched
  const later = searched.slice(1)
  const all = { name: 'search/all-tools', unit: 'tokens', values: [count(tools)] }
  const compared = (name: string, values: readonly number[]) =>
    comparedFigure(
      { name: `search/${name}`, unit: 'tokens', values },
      { ...all, values: values.map(() => all.values[0] ?? 0) },
    )
  return {
    figures: [
      measured('tools', `of ${mcp.status().length} servers`, [tools.length]),
      plainFigure(all),
      compared('before-a-search', [count(search.shownFor([]))]),
      compared(
        'after-a-search',
        searched.map(({ tokens }) => tokens),
      ),
      measured('first-search', 'ms', [first?.ms ?? 0]),
      measured(
        'later-search',
        'ms',
        later.map(({ ms }) => ms),
      ),
      ...foundFigures(searched),
    ],
    invalid: [],
  }
}

type CountTokens = (tools: ReturnType<ToolSearch['shownFor']>) => number

/** A tool as a request to a provider has it. */
function asSent(tool: ReturnType<ToolSearch['shownFor']>[number]): unknown {
  return convertToOpenAITool(tool)
}

async function searchedFor(
  request: SearchRequest,
  {
    tools,
    search,
    count,
  }: {
    readonly tools: readonly McpTool[]
    readonly search: ToolSearch
    readonly count: CountTokens
  },
): Promise<Searched> {
  const origins = new Map(
    tools.map(({ name, origin }) => [name, `${origin.server.name}/${origin.toolName}`]),
  )
  const start = performance.now()
  const call = {
    type: 'tool_call',
    id: 'call',
    name: 'search_tools',
    args: { query: request.text },
  } as const
  const message: unknown = await search.find(call.name)?.invoke(call)
  const ms = performance.now() - start
  const shown = search.shownFor([message as Parameters<ToolSearch['shownFor']>[0][number]])
  const found = shown.map(({ name }) => origins.get(name) ?? '').filter((origin) => origin !== '')
  const position = found.findIndex((origin) => request.tools.includes(origin))
  return { request, tokens: count(shown), ms, position }
}

function measured(name: string, unit: string, values: readonly number[]): Figure {
  return plainFigure({ name: `search/${name}`, unit, values })
}

/** The requests of each class whose tool was found. */
function foundFigures(searched: readonly Searched[]): readonly Figure[] {
  const all = searched.filter(({ request }) => request.of !== 'unseen' && request.of !== 'held-out')
  const classes = [...Map.groupBy(searched, ({ request }) => request.of)]
  return [
    plainFigure(foundWithin(1, 'found-first', all)),
    plainFigure(foundWithin(FOUND_AT_ONCE, 'found', all), { atLeast: 95 }),
    ...classes.map(([name, of]) => plainFigure(foundWithin(FOUND_AT_ONCE, `found-${name}`, of))),
  ]
}

function foundWithin(within: number, name: string, of: readonly Searched[]): Measured {
  const found = of.filter(({ position }) => position >= 0 && position < within)
  return { name: `search/${name}`, unit: `of ${of.length} requests`, values: [found.length] }
}
