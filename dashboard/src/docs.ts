// The API's description at /docs. A browser that has signed in may try requests out; others give a token.
import SwaggerUI from "swagger-ui-dist/swagger-ui-es-bundle.js";
import "swagger-ui-dist/swagger-ui.css";

SwaggerUI({ url: "/v1/openapi.json", dom_id: "#docs", deepLinking: true, docExpansion: "list", validatorUrl: null });
