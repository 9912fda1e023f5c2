/** A server that is measured. The README says what each is. */
export type ContenderName =
  | 'control'
  | 'gateway'
  | 'gateway-200'
  | 'gateway-open'
  | 'gateway-plain'
  | 'sdk-v2'
  | 'sdk-v2-200'
  | 'sdk-v2-low'
  | 'sdk-v2-resumable'
  | 'sdk-v1'
  | 'fastmcp'
  | 'mastra'

export const CONTENDERS: readonly ContenderName[] = [
  'control',
  'gateway',
  'gateway-200',
  'gateway-open',
  'gateway-plain',
  'sdk-v2',
  'sdk-v2-200',
  'sdk-v2-low',
  'sdk-v2-resumable',
  'sdk-v1',
  'fastmcp',
  'mastra',
]

/** @throws TypeError for anything else */
export function contenderNameFrom(value: unknown): ContenderName {
  const name = CONTENDERS.find((each) => each === value)
  if (name === undefined) throw new TypeError(`There is no contender "${String(value)}"`)
  return name
}

/** How many tools it has. */
export function toolsOf(name: ContenderName): number {
  return name.endsWith('-200') ? 200 : 10
}
