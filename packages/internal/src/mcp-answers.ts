// Repairs messages of MCP servers and clients before a schema sees them, in the forms that they are known to send.
// PHP sends `[]` for an empty object, and objects with numbered keys for lists; Kotlin, Go, Python and C# send `null` for
// what is absent. Reported for example in kotlin-sdk#581, Wazuh-MCP-Server#59, data-api-builder#3599, novamira#82.
import {
  fields,
  flag,
  hint,
  isObject,
  list,
  named,
  nullable,
  number,
  open,
  text,
} from './repairs.ts'
import type { Fields, Repair, Shape } from './repairs.ts'
import { objectSchema, schema } from './schema-repair.ts'

/** A result with a sign of failure is a failure. */
const failure: Repair = (value) =>
  value === undefined || value === null
    ? undefined
    : value !== false && value !== 'false' && value !== 0 && value !== ''
/** Objects by names that no shape knows. */
const byName: Repair = (value) => {
  const objects = open(value)
  if (!isObject(objects)) return objects
  return fields(Object.fromEntries(Object.keys(objects).map((name) => [name, open])))(objects)
}

const declared = fields({
  roots: fields({ listChanged: nullable }),
  sampling: fields({ context: open, tools: open }),
  elicitation: fields({ form: open, url: open }),
  tasks: fields({ list: open, cancel: open, requests: open }),
  experimental: byName,
  extensions: byName,
})
const clientCapabilities: Repair = (value) => declared(value) ?? {}

const meta = fields({
  progressToken: nullable,
  'io.modelcontextprotocol/clientCapabilities': clientCapabilities,
})
/** Data of a result, which is complete without. */
const extra = hint({})
/** Fields that all results and parameters share. */
const bare: Repair = fields({ _meta: meta })

const oneOf =
  (...values: readonly string[]): Repair =>
  (value) =>
    typeof value === 'string' && values.includes(value) ? value : undefined

const annotations = hint({
  audience: (value) => {
    const given = typeof value === 'string' ? [value] : value
    if (!Array.isArray(given)) return undefined
    return given.filter((who) => who === 'user' || who === 'assistant')
  },
  priority: (value) => {
    const read = number(value)
    return typeof read === 'number' ? Math.min(Math.max(read, 0), 1) : undefined
  },
  lastModified: text,
})

const icons: Repair = (value) => {
  const items = list(
    fields({
      mimeType: text,
      theme: oneOf('light', 'dark'),
      // A text in the first drafts of SEP-973.
      sizes: (sizes) => (typeof sizes === 'string' ? sizes.split(/\s+/) : nullable(sizes)),
    }),
  )(value)
  if (!Array.isArray(items)) return undefined
  return items.filter((icon) => isObject(icon) && typeof icon['src'] === 'string')
}

const DESCRIBED: Shape = { title: text, description: text, icons, _meta: open }

const hasText = (value: unknown, ...names: readonly string[]): boolean =>
  isObject(value) && names.every((name) => typeof value[name] === 'string')

const contents = fields({
  mimeType: text,
  text: nullable,
  blob: (value) => (typeof value === 'string' ? base64From(value)[1] : nullable(value)),
  _meta: open,
})

const isContents = (value: unknown): boolean =>
  hasText(value, 'uri', 'text') || hasText(value, 'uri', 'blob')

const block = fields({
  ...DESCRIBED,
  annotations,
  mimeType: text,
  size: number,
  name: nullable,
  resource: contents,
})

/** Returns a block of content. One that no revision knows becomes its JSON text, so that it is not lost. */
function blockFrom(given: unknown): Fields {
  if (typeof given === 'string') return { type: 'text', text: given }
  const value = block(given)
  if (isObject(value)) {
    if (value['type'] === 'text' && value['text'] === null) value['text'] = ''
    if (value['type'] === 'resource_link' && typeof value['uri'] === 'string') {
      value['name'] ??= value['uri']
    }
    const kind = value['type']
    if (hasText(value, 'data') && (kind === 'image' || kind === 'audio')) {
      const [type, data] = base64From(String(value['data']))
      value['data'] = data
      value['mimeType'] ??= type ?? `${kind}/*`
    }
    if (isKnownBlock(value)) return value
  }
  return { type: 'text', text: JSON.stringify(given) }
}

function isKnownBlock(value: Fields): boolean {
  switch (value['type']) {
    case 'text':
      return hasText(value, 'text')
    case 'image':
    case 'audio':
      return hasText(value, 'data', 'mimeType') && isBase64(String(value['data']))
    case 'resource_link':
      return hasText(value, 'uri', 'name')
    case 'resource':
      return isContents(value['resource'])
    default:
      return false
  }
}

/** Checked without decoding: an image may have megabytes. */
function isBase64(data: string): boolean {
  return !/[^A-Za-z0-9+/=]/.test(data)
}

/** Names have at most 127 characters (RFC 6838, section 4.2). Without limits, megabytes would take seconds. */
const DATA_URL = /^data:([\w.+-]{1,127}\/[\w.+-]{1,127}(?=;))?[^,]{0,256};base64,/i

/** The padding of base64, by the number of characters in its last group. */
const PADDING = ['', '', '==', '=']

/**
 * Returns the media type of a data URL, and the data in the alphabet, with the padding and without the line breaks that
 * providers demand. Servers send data URLs (nota/gyazo-mcp-server#129), MIME lines and the alphabet for URLs.
 */
function base64From(given: string): readonly [type: string | undefined, data: string] {
  const [start = '', type] = DATA_URL.exec(given) ?? []
  const data = given.slice(start.length).replaceAll(/\s+/g, '')
  const standard = data.replaceAll('-', '+').replaceAll('_', '/')
  if (!isBase64(standard)) return [undefined, given]
  const padding = standard.endsWith('=') ? '' : (PADDING[standard.length % 4] ?? '')
  return [type, standard + padding]
}

const blocks: Repair = (value) => {
  const items = list((item) => item)(value ?? [])
  const given = typeof items === 'string' || isObject(items) ? [items] : items
  return Array.isArray(given) ? given.map(blockFrom) : given
}

const tool = fields({
  ...DESCRIBED,
  inputSchema: objectSchema,
  outputSchema: (value) => (value === null ? undefined : schema(value)),
  annotations: hint({
    title: text,
    readOnlyHint: flag,
    destructiveHint: flag,
    idempotentHint: flag,
    openWorldHint: flag,
  }),
  execution: hint({ taskSupport: oneOf('required', 'optional', 'forbidden') }),
})

const resource = fields({ ...DESCRIBED, annotations, mimeType: text, size: number })

const prompt = fields({
  ...DESCRIBED,
  arguments: list(fields({ title: text, description: text, required: flag })),
})

const changes = hint({ listChanged: flag, subscribe: flag })

const capabilities: Repair = (value) =>
  fields({
    tools: changes,
    prompts: changes,
    resources: changes,
    logging: hint({}),
    completions: hint({}),
    experimental: hint({}),
    extensions: hint({}),
    tasks: hint({
      list: hint({}),
      cancel: hint({}),
      requests: hint({ tools: hint({ call: hint({}) }) }),
    }),
  })(value) ?? {}

const server = fields({ ...DESCRIBED, websiteUrl: text })

/** Fields of a task that may be missing. Its time to live may be null. */
const TASK: Shape = {
  statusMessage: text,
  pollInterval: number,
  pollIntervalMs: number,
  lastUpdatedAt: nullable,
  error: nullable,
  result: (value) => (value === null ? undefined : callResult(value)),
  inputRequests: (value) => inputRequests(value),
}

const form = fields({ requestedSchema: schema, message: nullable, url: nullable, _meta: open })

const inputRequests: Repair = (value) => {
  const requests = open(value)
  if (!isObject(requests)) return undefined
  for (const request of Object.values(requests)) {
    if (isObject(request)) request['params'] = form(request['params']) ?? {}
  }
  return requests
}

/** The items of a page. Go sends an empty slice as `null`. */
const page = (item: Repair): Repair => {
  const items = list(item)
  return (value) => (value === null ? [] : items(value))
}

/** The cursor of the next page. Servers also send `false` or an empty text after the last page. */
const cursor: Repair = (value) => {
  if (value === '' || value === false) return undefined
  return typeof value === 'number' ? String(value) : nullable(value)
}
const PAGE: Shape = { _meta: extra, nextCursor: cursor }

const called = fields({
  _meta: extra,
  content: blocks,
  isError: failure,
  task: fields(TASK),
  requestState: nullable,
  inputRequests,
})

/** Fields without which the result of a tool says nothing to a client. */
const SAYS = ['content', 'structuredContent', 'task', 'inputRequests', 'requestState']

/**
 * The result of a server that forgets `content` becomes its text, so that it is not lost (mcp-server-smtp#8); so does
 * `toolResult` of 2024-10-07.
 */
const callResult: Repair = (given) => {
  const value = called(given)
  if (!isObject(value) || SAYS.some((name) => name in value)) return value
  const { _meta, isError: _isError, resultType = 'complete', ...own } = value
  if (resultType !== 'complete' || Object.keys(own).length === 0) return value
  const { toolResult = own } = own
  const said = typeof toolResult === 'string' ? toolResult : JSON.stringify(toolResult)
  value['content'] = [{ type: 'text', text: said }]
  return value
}

const connected = fields({ _meta: extra, capabilities, serverInfo: server, instructions: text })

/** A server without a name or capabilities can be used (asciimoo/hister#363, ian-cowley/MCPSqlServer#3). */
const initialized: Repair = (given) => {
  const value = connected(given)
  if (!isObject(value) || typeof value['protocolVersion'] !== 'string') return value
  const { serverInfo, capabilities: declares } = value
  const { name, version, ...more } = isObject(serverInfo) ? serverInfo : {}
  value['serverInfo'] = { name: label(name) ?? 'unknown', version: label(version) ?? '0', ...more }
  if (!isObject(declares)) value['capabilities'] = {}
  return value
}

function label(value: unknown): string | undefined {
  const isLabel = (typeof value === 'string' && value !== '') || typeof value === 'number'
  return isLabel ? String(value) : undefined
}

/**
 * Structured content of the revisions with sessions is an object. Another value (zoteus#83) becomes its field `result`,
 * as a client of 2026-07-28 shows it to SDK v1.
 */
const HAVE_STRUCTURE: ReadonlySet<string> = new Set(['tools/call', 'tasks/result'])
const structured = fields({
  structuredContent: (given) => {
    const value = open(given)
    return value === undefined || isObject(value) ? value : { result: value }
  },
})

/** Repairs of results, by the method of the request. */
const RESULTS = named<Repair>({
  initialize: initialized,
  'server/discover': connected,
  'tools/list': fields({ ...PAGE, tools: page(tool) }),
  'tools/call': callResult,
  'resources/list': fields({ ...PAGE, resources: page(resource) }),
  'resources/templates/list': fields({ ...PAGE, resourceTemplates: page(resource) }),
  'resources/read': fields({ _meta: open, contents: list(contents) }),
  'prompts/list': fields({ ...PAGE, prompts: page(prompt) }),
  'prompts/get': fields({
    _meta: open,
    description: text,
    messages: list(
      fields({
        content: (value) =>
          typeof value === 'string' || isObject(value) ? blockFrom(value) : value,
      }),
    ),
  }),
  'completion/complete': fields({
    _meta: open,
    completion: fields({ values: list(nullable), total: number, hasMore: flag }),
  }),
  'tasks/get': fields({ _meta: open, ...TASK }),
  'tasks/result': callResult,
  'tasks/cancel': fields({ _meta: open, ...TASK }),
  'tasks/list': fields({ ...PAGE, tasks: list(fields(TASK)) }),
})

/** Parameters of requests for a part of a list. */
const part = fields({ _meta: meta, cursor })
/** Parameters of requests that may continue an earlier one (2026-07-28). */
const CONTINUED: Shape = { _meta: meta, requestState: nullable, inputResponses: open }

/** Repairs of the parameters of requests and notifications, of servers and of clients. */
const PARAMS = named<Repair>({
  initialize: fields({ _meta: meta, capabilities: clientCapabilities, clientInfo: server }),
  'tools/list': part,
  'prompts/list': part,
  'resources/list': part,
  'resources/templates/list': part,
  // The schema of the tool says what its arguments mean.
  'tools/call': fields({ ...CONTINUED, arguments: nullable }),
  'prompts/get': fields({ ...CONTINUED, arguments: open }),
  'resources/read': fields(CONTINUED),
  'completion/complete': fields({ _meta: meta, context: fields({ arguments: open }) }),
  'tasks/update': fields({ _meta: meta, inputResponses: open }),
  'subscriptions/listen': fields({ _meta: meta, notifications: open }),
  'notifications/progress': fields({
    _meta: open,
    progress: (value) => number(value) ?? 0,
    total: number,
    message: text,
  }),
  'notifications/message': fields({
    _meta: open,
    logger: text,
    level: (value) => LEVELS.get(String(value).toLowerCase()) ?? value,
  }),
  'elicitation/create': form,
  'notifications/tasks/status': fields({ _meta: open, ...TASK }),
})

/** Names of levels that other loggers use. */
const LEVELS = named({
  trace: 'debug',
  debug: 'debug',
  info: 'info',
  information: 'info',
  notice: 'notice',
  warn: 'warning',
  warning: 'warning',
  error: 'error',
  fatal: 'critical',
  critical: 'critical',
  alert: 'alert',
  emergency: 'emergency',
})

/**
 * Parses a message. `NaN` and `Infinity`, which Python writes (kumo-rfm-mcp#65), are read as `null`: JavaScript writes
 * them so.
 *
 * @throws SyntaxError
 */
export function parseMessage(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch (error) {
    if (!/NaN|Infinity/.test(json)) throw error
    let isInText = false
    const finite = json.replaceAll(/\\.|"|-?\b(?:NaN|Infinity)\b/gs, (found) => {
      if (found === '"') isInText = !isInText
      const isNumber = !isInText && found !== '"' && !found.startsWith('\\')
      return isNumber ? 'null' : found
    })
    return JSON.parse(finite)
  }
}

/**
 * Repairs the result of a request in place: `null` is absent, `[]` is `{}` where an object is due, and a block of content
 * that no revision knows becomes its JSON text. What cannot be repaired is left for the schema to refuse.
 *
 * @param hasAnyStructure the structured content of a tool may be any JSON value, as in revision 2026-07-28, and is left alone
 */
export function repairResult(
  method: string,
  result: object,
  { hasAnyStructure = false }: { readonly hasAnyStructure?: boolean } = {},
): void {
  ;(RESULTS.get(method) ?? bare)(result)
  if (!hasAnyStructure && HAVE_STRUCTURE.has(method)) structured(result)
}

/**
 * Repairs a JSON-RPC message in place, with the parameters of a request or notification. A result needs the method of its
 * request: see `repairResult()`.
 */
export function repairMessage(message: unknown): void {
  if (!isObject(message) || message['jsonrpc'] !== '2.0') return
  for (const name of ['method', 'error']) if (message[name] === null) delete message[name]
  const { method, result, error } = message
  if (typeof method === 'string') {
    // Without an id, a request would pass for a notification.
    if (message['id'] === null && method.startsWith('notifications/')) delete message['id']
    const params = (PARAMS.get(method) ?? bare)(message['params'])
    if (params === undefined) delete message['params']
    else message['params'] = params
  } else if (error !== undefined) {
    if (result === null) delete message['result']
    message['error'] = errorFrom(error)
  } else if ('result' in message) {
    message['result'] = bare(result) ?? {}
  }
}

const INTERNAL_ERROR = -32_603

/** Hand-written servers send a text, or leave out the code or the message. */
function errorFrom(given: unknown): unknown {
  if (typeof given === 'string') return { code: INTERNAL_ERROR, message: given }
  if (!isObject(given)) return given
  const code = number(given['code']) ?? INTERNAL_ERROR
  const { message = JSON.stringify(given) } = given
  return {
    ...given,
    code,
    message: typeof message === 'string' ? message : JSON.stringify(message),
  }
}
