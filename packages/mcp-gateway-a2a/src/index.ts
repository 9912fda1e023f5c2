// Everything exported here is public API.
import './runtime-check.ts' // stays the first import
export { fileSection } from './file-section.ts'
export { a2aSource } from './source.ts'
export type { A2aCard, A2aSourceOptions } from './source.ts'
