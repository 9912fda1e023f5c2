/** A tool as a server lists it, and as an agent definition keeps it. */
export interface CatalogueTool {
  readonly name: string
  readonly title: string
  readonly description: string
  readonly inputSchema: ObjectSchema
  readonly annotations: Readonly<Record<string, unknown>>
}

interface ObjectSchema {
  readonly type: 'object'
  readonly [keyword: string]: unknown
}

type Schema = Readonly<Record<string, unknown>>

const text = (description: string): Schema => ({ type: 'string', description })
const nullable = (description: string): Schema => ({
  anyOf: [{ type: 'string' }, { type: 'null' }],
  default: null,
  description,
})

/** In the ways that servers of some size write their schemas: by hand, from zod, from pydantic. */
const SHAPES: readonly ((index: number) => ObjectSchema)[] = [
  () => ({
    type: 'object',
    properties: {
      id: text('The identifier of the record, as the list gives it'),
      fields: { type: 'array', items: { type: 'string' }, description: 'Only these fields' },
      limit: { type: 'integer', minimum: 1, maximum: 500, default: 50 },
    },
    required: ['id'],
    additionalProperties: false,
    $schema: 'http://json-schema.org/draft-07/schema#',
  }),
  (index) => ({
    type: 'object',
    properties: {
      query: text('What to look for, in the query language of the service'),
      state: { type: 'string', enum: ['open', 'closed', 'merged', 'all'], default: 'open' },
      labels: { type: 'array', items: { type: 'string' }, maxItems: 20 },
      since: nullable('Nothing older than this, in ISO 8601'),
      [`option_${index}`]: { type: 'boolean', default: false },
      page: { type: 'integer', minimum: 1 },
    },
    required: ['query'],
  }),
  () => ({
    $defs: {
      Address: {
        type: 'object',
        properties: {
          street: text('With the number'),
          city: text('Without the country'),
          country: { type: 'string', pattern: '^[A-Z]{2}$' },
        },
        required: ['street', 'city', 'country'],
      },
      Line: {
        type: 'object',
        properties: {
          sku: text('What is ordered'),
          quantity: { type: 'integer', minimum: 1 },
          note: nullable('For those who pack it'),
        },
        required: ['sku', 'quantity'],
      },
    },
    type: 'object',
    properties: {
      customer: text('Who orders'),
      billing: { $ref: '#/$defs/Address' },
      shipping: { $ref: '#/$defs/Address' },
      lines: { type: 'array', items: { $ref: '#/$defs/Line' }, minItems: 1 },
    },
    required: ['customer', 'billing', 'lines'],
  }),
  () => ({
    type: 'object',
    properties: {
      channel: text('Where to'),
      message: {
        oneOf: [
          {
            type: 'object',
            properties: { kind: { const: 'text' }, text: text('What to say') },
            required: ['kind', 'text'],
          },
          {
            type: 'object',
            properties: {
              kind: { const: 'file' },
              url: { type: 'string', format: 'uri' },
              name: nullable('How it is called'),
            },
            required: ['kind', 'url'],
          },
        ],
      },
      metadata: { type: 'object', additionalProperties: { type: 'string' } },
    },
    required: ['channel', 'message'],
  }),
]

/** So many tools, new objects every time: no one gains from what it remembers of the last ones. */
export function catalogueOf(count: number): CatalogueTool[] {
  return Array.from({ length: count }, (_, index) => ({
    name: `service_${index % 25}_operation_${index}`,
    title: `Operation ${index}`,
    description: `Operation ${index} of the service. Use it when the user asks for it by name, or when another operation refers to it. Returns JSON; long results come in pages, and an unknown identifier is an error.`,
    inputSchema: SHAPES[index % SHAPES.length]?.(index) ?? { type: 'object' },
    annotations: { readOnlyHint: index % 3 === 0, destructiveHint: index % 7 === 0 },
  }))
}
