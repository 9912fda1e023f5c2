import { createGateway } from '@x/mcp-gateway'
import { a2aSource } from '@x/mcp-gateway-a2a'

const authorization = `Bearer ${process.env['WEATHER_KEY']}`
const gateway = createGateway({
  sources: [
    a2aSource({
      cards: [
        'https://weather.example',
        { url: 'http://10.0.0.7:8080', headers: { authorization } },
      ],
      trustedOrigins: ['http://10.0.0.7:8080'],
    }),
  ],
})
export {}
