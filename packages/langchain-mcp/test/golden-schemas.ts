import type { JsonSchema } from '../src/tool-source.ts'

/** A schema that other clients damage, with valid and invalid arguments. */
export interface GoldenSchema {
  readonly schema: JsonSchema
  readonly fits: readonly unknown[]
  readonly misfits: readonly unknown[]
}

const text = { type: 'string' } as const

/** Parts that simplifying converters are known to lose or to change. */
export const goldenSchemas: Readonly<Record<string, GoldenSchema>> = {
  'a nullable field': {
    schema: { type: 'object', properties: { a: { anyOf: [text, { type: 'null' }] } } },
    fits: [{ a: 'x' }, { a: null }, {}],
    misfits: [{ a: 7 }],
  },
  'nullable as OpenAPI has it': {
    schema: { type: 'object', properties: { a: { type: 'string', nullable: true } } },
    fits: [{ a: 'x' }, { a: null }],
    misfits: [{ a: 7 }],
  },
  'a choice of constants': {
    schema: {
      type: 'object',
      properties: { a: { oneOf: [{ const: 'x', title: 'X' }, { const: 'y' }] } },
    },
    fits: [{ a: 'x' }, { a: 'y' }],
    misfits: [{ a: 'z' }],
  },
  'text or number': {
    schema: { type: 'object', properties: { a: { type: ['string', 'integer'] } } },
    fits: [{ a: 'x' }, { a: 7 }],
    misfits: [{ a: 7.5 }, { a: null }],
  },
  'a discriminated union': {
    schema: {
      type: 'object',
      properties: {
        shape: {
          oneOf: [
            {
              type: 'object',
              properties: { kind: { const: 'circle' }, radius: { type: 'number' } },
              required: ['kind', 'radius'],
            },
            {
              type: 'object',
              properties: { kind: { const: 'square' }, side: { type: 'number' } },
              required: ['kind', 'side'],
            },
          ],
        },
      },
      required: ['shape'],
    },
    fits: [{ shape: { kind: 'circle', radius: 1 } }, { shape: { kind: 'square', side: 2 } }],
    misfits: [{ shape: { kind: 'circle', side: 2 } }, { shape: { kind: 'hexagon' } }, {}],
  },
  'a discriminated union at the root': {
    schema: {
      type: 'object',
      oneOf: [
        {
          properties: { kind: { const: 'circle' }, radius: { type: 'number' } },
          required: ['kind', 'radius'],
        },
        {
          properties: { kind: { const: 'square' }, side: { type: 'number' } },
          required: ['kind', 'side'],
        },
      ],
    },
    fits: [
      { kind: 'circle', radius: 1 },
      { kind: 'square', side: 2 },
    ],
    misfits: [{ kind: 'circle', side: 2 }, { radius: 1 }],
  },
  'one of two fields': {
    schema: {
      type: 'object',
      properties: { a: text, b: text },
      anyOf: [{ required: ['a'] }, { required: ['b'] }],
    },
    fits: [{ a: 'x' }, { b: 'x' }, { a: 'x', b: 'y' }],
    misfits: [{}],
  },
  conditions: {
    schema: {
      type: 'object',
      properties: { kind: text, a: text, b: text },
      if: { properties: { kind: { const: 'a' } }, required: ['kind'] },
      // oxlint-disable-next-line unicorn/no-thenable -- a keyword of JSON schema
      then: { required: ['a'] },
      else: { required: ['b'] },
    },
    fits: [
      { kind: 'a', a: 'x' },
      { kind: 'b', b: 'x' },
    ],
    misfits: [
      { kind: 'a', b: 'x' },
      { kind: 'b', a: 'x' },
    ],
  },
  recursion: {
    schema: {
      type: 'object',
      properties: { tree: { $ref: '#/$defs/node' } },
      $defs: {
        node: {
          type: 'object',
          properties: { name: text, children: { type: 'array', items: { $ref: '#/$defs/node' } } },
          required: ['name'],
        },
      },
    },
    fits: [{ tree: { name: 'a', children: [{ name: 'b', children: [] }] } }],
    misfits: [{ tree: { name: 'a', children: [{ children: [] }] } }],
  },
  'recursion of the root': {
    schema: { type: 'object', properties: { next: { $ref: '#' } }, additionalProperties: false },
    fits: [{ next: { next: {} } }],
    misfits: [{ next: { other: 1 } }],
  },
  'a reference at the root': {
    schema: {
      $ref: '#/$defs/input',
      $defs: {
        input: { type: 'object', properties: { a: text, again: { $ref: '#' } }, required: ['a'] },
      },
    },
    fits: [{ a: 'x' }, { a: 'x', again: { a: 'y' } }],
    misfits: [{}, { a: 7 }, { a: 'x', again: {} }],
  },
  'a reference into properties': {
    schema: {
      type: 'object',
      properties: { a: { type: 'object', properties: { x: text } }, b: { $ref: '#/properties/a' } },
    },
    fits: [{ b: { x: 'y' } }],
    misfits: [{ b: { x: 7 } }],
  },
  'a property named definitions': {
    schema: {
      type: 'object',
      properties: { definitions: text, $defs: text, $ref: text },
      required: ['definitions'],
    },
    fits: [{ definitions: 'x', $defs: 'y', $ref: 'z' }],
    misfits: [{}, { definitions: 7 }],
  },
  'a tuple': {
    schema: {
      type: 'object',
      properties: {
        pair: { type: 'array', prefixItems: [text, { type: 'integer' }], items: false },
      },
    },
    fits: [{ pair: ['x', 1] }],
    misfits: [{ pair: [1, 'x'] }, { pair: ['x', 1, 2] }],
  },
  'a tuple of draft-07': {
    schema: {
      $schema: 'http://json-schema.org/draft-07/schema#',
      type: 'object',
      properties: {
        pair: { type: 'array', items: [text, { type: 'integer' }], additionalItems: false },
      },
      dependencies: { pair: ['other'] },
      definitions: { unused: text },
    },
    fits: [{ pair: ['x', 1], other: 1 }],
    misfits: [{ pair: [1, 'x'], other: 1 }, { pair: ['x', 1] }],
  },
  'fields that nobody evaluated': {
    schema: {
      type: 'object',
      allOf: [{ properties: { a: text } }],
      properties: { b: text },
      unevaluatedProperties: false,
    },
    fits: [{ a: 'x', b: 'y' }],
    misfits: [{ a: 'x', c: 1 }],
  },
  'an intersection': {
    schema: {
      allOf: [
        { $ref: '#/$defs/base' },
        { type: 'object', properties: { b: { type: 'integer' } }, required: ['b'] },
      ],
      $defs: { base: { type: 'object', properties: { a: text }, required: ['a'] } },
    },
    fits: [{ a: 'x', b: 1 }],
    misfits: [{ a: 'x' }, { b: 1 }],
  },
  'names by pattern': {
    schema: {
      type: 'object',
      patternProperties: { '^x-': text },
      additionalProperties: false,
      propertyNames: { maxLength: 5 },
    },
    fits: [{ 'x-a': 'b' }],
    misfits: [{ a: 'b' }, { 'x-a': 7 }, { 'x-abcdef': 'b' }],
  },
  'limits of draft-04': {
    schema: {
      type: 'object',
      properties: { a: { type: 'number', minimum: 0, exclusiveMinimum: true } },
    },
    fits: [{ a: 1 }],
    misfits: [{ a: 0 }],
  },
  'a pattern that is no JavaScript expression': {
    schema: {
      type: 'object',
      properties: { a: { type: 'string', pattern: '^[\\w-.]+$', maxLength: 3 } },
    },
    fits: [{ a: 'x!' }],
    misfits: [{ a: 'long' }, { a: 7 }],
  },
  'an embedded document': {
    schema: {
      type: 'object',
      properties: { a: { $ref: 'https://schemas.example/item' } },
      $defs: {
        item: {
          $id: 'https://schemas.example/item',
          $ref: '#/$defs/text',
          $defs: { text },
        },
      },
    },
    fits: [{ a: 'x' }],
    misfits: [{ a: 7 }],
  },
}
