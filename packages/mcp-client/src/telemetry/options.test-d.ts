import type * as openTelemetry from '@opentelemetry/api'
import { expectTypeOf, test } from 'vitest'
import type { Logger, McpClientStatus, OpenTelemetry } from '../index.ts'

test('the API of OpenTelemetry fits as it is', () => {
  expectTypeOf<typeof openTelemetry>().toExtend<OpenTelemetry>()
})

test('the console fits as logger, and one without `error` does not', () => {
  expectTypeOf<typeof console>().toExtend<Logger>()
  expectTypeOf<Pick<typeof console, 'debug' | 'info' | 'warn'>>().not.toExtend<Logger>()
})

test('a status tells its states apart', () => {
  expectTypeOf<McpClientStatus['state']>().toEqualTypeOf<
    'created' | 'connecting' | 'handshaking' | 'active' | 'idle' | 'disposing'
  >()
})
